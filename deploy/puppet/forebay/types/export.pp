# A part of the name space, and the servers of its files.
type Forebay::Export = Struct[{ path => Pattern[/\A\/[^"\\\s]*\z/], origins => Array[Forebay::Text, 1] }]
