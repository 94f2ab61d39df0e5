# A manager or a filler: the package, its configuration, its place in the shared file system, the service.
#
# @api private
class forebay::server {
  if empty($forebay::allow) {
    fail('forebay: no origin may be read: give the parameter allow')
  }
  if $forebay::role == 'manager' and !$forebay::filler {
    fail('forebay: a manager needs to know its filler: give the parameter filler')
  }

  if $forebay::uid {
    group { 'forebay':
      ensure => present,
      gid    => $forebay::uid,
      system => true,
    }
    user { 'forebay':
      ensure => present,
      uid    => $forebay::uid,
      gid    => 'forebay',
      system => true,
      home   => '/var/cache/forebay',
      shell  => '/usr/sbin/nologin',
      before => Package['forebay'],
    }
  }

  $from = $forebay::package_source ? {
    undef   => {},
    default => { 'provider' => 'dpkg', 'source' => $forebay::package_source },
  }
  package { 'forebay':
    ensure => installed,
    *      => $from,
  }

  if $forebay::role == 'filler' {
    file { $forebay::store:
      ensure  => directory,
      owner   => 'forebay',
      group   => 'forebay',
      mode    => '0755',
      require => Package['forebay'],
      before  => File['/etc/forebay/forebay.toml'],
    }
  }

  file { '/etc/forebay/forebay.toml':
    ensure       => file,
    content      => epp('forebay/forebay.toml.epp'),
    owner        => 'root',
    group        => 'root',
    mode         => '0644',
    validate_cmd => '/usr/bin/forebay check-config %',
    require      => Package['forebay'],
  }

  file { '/etc/systemd/system/forebay.service.d':
    ensure => directory,
    owner  => 'root',
    group  => 'root',
    mode   => '0755',
  }
  file { '/etc/systemd/system/forebay.service.d/store.conf':
    ensure  => file,
    content => epp('forebay/store.conf.epp', { 'store' => $forebay::store }),
    owner   => 'root',
    group   => 'root',
    mode    => '0644',
  }

  if $forebay::manage_service {
    exec { 'forebay: systemctl daemon-reload':
      command     => '/usr/bin/systemctl daemon-reload',
      refreshonly => true,
      subscribe   => File['/etc/systemd/system/forebay.service.d/store.conf'],
    }
    service { 'forebay':
      ensure    => running,
      enable    => true,
      require   => Exec['forebay: systemctl daemon-reload'],
      subscribe => [
        Package['forebay'],
        File['/etc/forebay/forebay.toml'],
        File['/etc/systemd/system/forebay.service.d/store.conf'],
      ],
    }
  }
}
