# Disk caching on the fly: a client, a manager that redirects it, or a filler that fetches.
#
# @param role Role of this machine: `client`, `manager` or `filler`.
# @param manager Server that clients use: `root://HOST:PORT` of the manager.
# @param filler Target of the manager for incomplete files: `root://HOST:PORT` of the filler.
# @param allow Origins that may be read through the cache: `HOST`, `HOST:PORT` or `HOST:*`, with `*` in HOST for any characters.
#   Manager and filler need it; a `*` alone lets them contact every host.
# @param store Directory of the cache on the file system that manager and filler share.
# @param client_store The same directory as clients see it.
# @param clients Addresses of the clients that see it; `*` stands for any characters.
# @param file_mode Permission bits of complete files, which clients read directly.
# @param lease Time for which a file is not purged after a redirect to it.
# @param budget Size limit of the cache; by default that of the file system.
# @param fill How much of a file is fetched: `on-demand-blocks`, `while-open` or `to-end`.
# @param port Port of manager and filler.
# @param metrics Address for metrics and probes, which only monitoring should reach.
# @param uid Id of the user and group `forebay`, equal on manager and filler; by default chosen by the package.
# @param package_source A .deb on this machine to install; by default the package comes from the repositories.
# @param plugin_source The client plug-in's library, for `source` of a file: `puppet:///…`, or a path on the client.
# @param plugin_path Where clients look for that library.
# @param manage_service Whether the service is started; not where images are built.
class forebay (
  Enum['client', 'manager', 'filler'] $role,
  Forebay::Url $manager,
  Optional[Forebay::Url] $filler = undef,
  Array[Forebay::Text] $allow = [],
  Forebay::Path $store = '/var/cache/forebay',
  Forebay::Path $client_store = $store,
  Array[Forebay::Text, 1] $clients = ['127.*', '::1'],
  Pattern[/\A0[0-7]{3}\z/] $file_mode = '0644',
  Pattern[/\A\d+(s|min|h|d)\z/] $lease = '15min',
  Optional[Pattern[/\A\d+(MiB|GiB|TiB)\z/]] $budget = undef,
  Enum['on-demand-blocks', 'while-open', 'to-end'] $fill = 'while-open',
  Integer[1, 65535] $port = 1094,
  Forebay::Text $metrics = '127.0.0.1:9090',
  Optional[Integer[1]] $uid = undef,
  Optional[Forebay::Path] $package_source = undef,
  Optional[Forebay::Text] $plugin_source = undef,
  Forebay::Path $plugin_path = "/usr/lib/${facts['os']['architecture'] ? { 'amd64' => 'x86_64', default => 'aarch64' }}-linux-gnu/libXrdClForebay-5.so",
  Boolean $manage_service = true,
) {
  if $role == 'client' {
    contain forebay::client
  } else {
    contain forebay::server
  }
}
