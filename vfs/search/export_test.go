package search

// MaxAlternatives is the bound that tests try.
const MaxAlternatives = maxAlternatives

// Expand returns the patterns that the braces of one stand for, and the steps
// that it took.
func Expand(pattern string) (alts []string, steps int, err error) { return expand(pattern) }
