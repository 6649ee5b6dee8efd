package physical

// ListBytes is how much of a directory a listing keeps in memory.
var ListBytes = &listBytes
