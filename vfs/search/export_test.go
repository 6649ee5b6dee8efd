package search

// MaxAlternatives is the bound for tests.
const MaxAlternatives = maxAlternatives

// Expand returns the patterns for which the braces of a pattern stand, and the number of
// steps that it took.
func Expand(pattern string) (alts []string, steps int, err error) { return expand(pattern) }
