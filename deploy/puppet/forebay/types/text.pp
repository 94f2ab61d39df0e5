# Text that needs no escaping between quotation marks in the configuration.
type Forebay::Text = Pattern[/\A[^"\\[:cntrl:]]+\z/]
