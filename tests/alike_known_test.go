//go:build linux

package tests

import (
	"regexp"
	"sync/atomic"
)

// reservedNames are names that some store reserves.
var reservedNames = []string{".git", ".GIT", "git~1", ".git.", ".capd-staging-", ".capd-staging-0123456789abcdef0123456789abcdef", ".CAPD-staging-x"}

// difference is a difference that a guest can see, and its reason. Each must occur
// when all stores are compared.
type difference struct {
	why                             string
	store, question, answer, memory *regexp.Regexp
	seen                            atomic.Bool
}

// differs describes a difference: in which stores, for which questions, what they
// answer, and what memory answers. Each is a regular expression for any part of the
// text.
func differs(store, question, answer, memory, why string) difference {
	re := regexp.MustCompile
	return difference{why: why, store: re(store), question: re(question), answer: re(answer), memory: re(memory)}
}

// known are the permitted differences.
var known = []difference{
	differs(`^(mounted )?git writable$`, `"(names/)?(\.git\.?|\.GIT|git~1)"`, `invalid: .*: names like this are reserved|notFound: `, `exists: |version|opened|done|file`,
		"git keeps nothing under a name that some file system takes for .git"),
	differs(`^(mounted )?physical`, `"(names/)?\.(capd|CAPD)-staging-`, `invalid: .*: names like this are reserved|notFound: `, `exists: |version|opened|done|file`,
		"a directory of the host holds what is being written under names of its own"),
	differs(`^mounted `, `^\d+ deep|^grant\..*"deep`, `limit: .*deeper than|^more false|^opened`, ``,
		"how deep a path may be counts from the host's root"),
}

func isKnown(store string, got, want exchange) bool {
	for i := range known {
		k := &known[i]
		if k.store.MatchString(store) && k.question.MatchString(got.question) && k.answer.MatchString(got.answer) && k.memory.MatchString(want.answer) {
			k.seen.Store(true)
			return true
		}
	}
	return false
}
