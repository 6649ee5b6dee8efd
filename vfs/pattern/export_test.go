package pattern

// Fold is the folding of patterns and paths, for tests.
var Fold = fold
