package ignore

// MaxWidth is the bound for tests.
const MaxWidth = maxWidth
