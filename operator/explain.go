package operator

// Explanation says whether a grant allows an operation, and what decides about it.
type Explanation struct {
	Grant   string   `json:"grant"` // id
	Guest   string   `json:"guest"`
	Answer  Outcome  `json:"answer"`
	Code    string   `json:"code,omitempty"`    // of the error with which the operation would fail
	Message string   `json:"message,omitempty"` // likewise
	Reasons []Reason `json:"reasons"`           // in the order in which they are asked
}

// Outcome is what is decided about an operation.
type Outcome string

// The values of Outcome.
const (
	Yes   Outcome = "yes"
	After Outcome = "ask" // it waits for an approval first
	No    Outcome = "no"
)

// Reason is one thing that decides.
type Reason struct {
	What    string  `json:"what"` // grant, path, gate, rights, withheld, rule, bounds, approval, control, quota, store, hook, state
	Says    Outcome `json:"says"`
	Text    string  `json:"text"`
	Source  string  `json:"source,omitempty"` // where it is written: a file and a line
	InMount bool    `json:"inMount"`          // it belongs to the mount that the path leads to
}
