# A redirector of a cluster of caches: stock `xrootd` and `cmsd` in role manager.
#
# @param exports Parts of the name space, each with `path`; `origins` are those of the nodes.
# @param allow Names of hosts that may log in, with `*` for any characters.
# @param cms_port Port on which it accepts nodes.
# @param port Port of clients.
# @param manage_service Whether the services are started; not where images are built.
class forebay::redirector (
  Array[Forebay::Export, 1] $exports,
  Array[Forebay::Host, 1] $allow,
  Integer[1, 65535] $cms_port = 1213,
  Integer[1, 65535] $port = 1094,
  Boolean $manage_service = true,
) {
  package { 'xrootd-server':
    ensure => installed,
  }

  file { '/etc/xrootd/xrootd-redirector.cfg':
    ensure  => file,
    content => epp('forebay/redirector.cfg.epp'),
    owner   => 'root',
    group   => 'root',
    mode    => '0644',
    require => Package['xrootd-server'],
  }

  if $manage_service {
    service { ['cmsd@redirector', 'xrootd@redirector']:
      ensure    => running,
      enable    => true,
      subscribe => [Package['xrootd-server'], File['/etc/xrootd/xrootd-redirector.cfg']],
    }
  }
}
