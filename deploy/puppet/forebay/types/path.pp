# An absolute path that needs no quoting anywhere.
type Forebay::Path = Pattern[/\A(\/[A-Za-z0-9._+@:\-]+)+\z/]
