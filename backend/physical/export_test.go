package physical

// ListBytes is how much of a directory a listing holds.
var ListBytes = &listBytes
