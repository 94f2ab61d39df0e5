# A server, as `root://HOST:PORT`.
type Forebay::Url = Pattern[/\Aroots?:\/\/[A-Za-z0-9.\-\[\]:]+:\d+\z/]
