# A node of a cluster of caches, which logs in to stock redirectors.
#
# @param exports Parts of the name space, each with `path` and `origins`.
# @param managers All redirectors, as names of hosts. The node logs in to each.
# @param members All nodes, as names of hosts, the same list on each. Without it redirectors select the nodes of new files.
# @param cms_port Port on which redirectors accept nodes.
# @param port Port of clients, the same on all nodes.
# @param store Directory of the cache.
# @param budget Size limit of the cache; by default that of the file system.
# @param metrics Address for metrics and probes, which only monitoring should reach.
# @param package_source A .deb on this machine to install; by default the package comes from the repositories.
# @param manage_service Whether the service is started; not where images are built.
class forebay::node (
  Array[Forebay::Export, 1] $exports,
  Array[Forebay::Host, 1] $managers,
  Array[Forebay::Host] $members = [],
  Integer[1, 65535] $cms_port = 1213,
  Integer[1, 65535] $port = 1094,
  Forebay::Path $store = '/var/cache/forebay',
  Optional[Pattern[/\A\d+(MiB|GiB|TiB)\z/]] $budget = undef,
  Forebay::Text $metrics = '127.0.0.1:9090',
  Optional[Forebay::Path] $package_source = undef,
  Boolean $manage_service = true,
) {
  $from = $package_source ? {
    undef   => {},
    default => { 'provider' => 'dpkg', 'source' => $package_source },
  }
  package { 'forebay':
    ensure => installed,
    *      => $from,
  }

  file { $store:
    ensure  => directory,
    owner   => 'forebay',
    group   => 'forebay',
    mode    => '0750',
    require => Package['forebay'],
    before  => File['/etc/forebay/forebay.toml'],
  }

  file { '/etc/forebay/forebay.toml':
    ensure       => file,
    content      => epp('forebay/node.toml.epp'),
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
    content => epp('forebay/node.conf.epp', { 'store' => $store }),
    owner   => 'root',
    group   => 'root',
    mode    => '0644',
  }

  if $manage_service {
    exec { 'forebay node: systemctl daemon-reload':
      command     => '/usr/bin/systemctl daemon-reload',
      refreshonly => true,
      subscribe   => File['/etc/systemd/system/forebay.service.d/store.conf'],
    }
    service { 'forebay':
      ensure    => running,
      enable    => true,
      require   => Exec['forebay node: systemctl daemon-reload'],
      subscribe => [
        Package['forebay'],
        File['/etc/forebay/forebay.toml'],
        File['/etc/systemd/system/forebay.service.d/store.conf'],
      ],
    }
  }
}
