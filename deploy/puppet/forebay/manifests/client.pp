# A machine that reads: the plug-in, and the two environment variables that switch it on.
#
# @api private
class forebay::client {
  if $forebay::plugin_source {
    file { $forebay::plugin_path:
      ensure => file,
      source => $forebay::plugin_source,
      owner  => 'root',
      group  => 'root',
      mode   => '0644',
    }
  }

  file { '/etc/profile.d/forebay.sh':
    ensure  => file,
    content => epp('forebay/environment.sh.epp', { 'manager' => $forebay::manager }),
    owner   => 'root',
    group   => 'root',
    mode    => '0644',
  }
}
