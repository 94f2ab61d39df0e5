# The name of a host; in lists of permissions with * for any characters.
type Forebay::Host = Pattern[/\A[A-Za-z0-9.*\-]+\z/]
