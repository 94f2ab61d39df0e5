# What can stand between quotation marks in the configuration as it is.
type Forebay::Text = Pattern[/\A[^"\\[:cntrl:]]+\z/]
