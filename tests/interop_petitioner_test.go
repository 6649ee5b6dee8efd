package tests

import (
	"context"
	"encoding/hex"
	"math"
	"strings"
	"time"

	"capd/locator"
	"capd/operator"
	"capd/vfs/membrane"
)

// rooted is the configuration of a host whose directory can be asked for.
const rooted = `
mounts: [{path: project, url: "physical:SERVED"}, {path: tmp, url: "memory:"}]
roots: [{id: project, kind: workspace, mount: project}]
`

// invited makes an invitation, and writes its secret where the scenario's guest finds it.
func invited(s *cxxScene) {
	con := s.host.console()
	_, text, err := con.Invite(context.Background(), s.guest, operator.InviteTerms{})
	ok(s, err)
	l, err := locator.Parse(text)
	ok(s, err)
	s.write("invitation", []byte(hex.EncodeToString(l.Secret[:])))
}

// listening has requests wait for a decision for 10 seconds.
func listening(s *cxxScene) {
	_, _, _, err := s.host.console().Events(context.Background(), math.MaxUint64, 0)
	ok(s, err)
}

// decided waits for the request of the scenario's guest, and answers what the client has said last.
func decided(s *cxxScene) {
	con := s.host.console()
	listening(s)
	v := operator.Verdict{Answer: operator.Once}
	switch {
	case strings.HasSuffix(s.lines[len(s.lines)-1], "deny"):
		v = operator.Verdict{Answer: operator.Deny, Reason: "no"}
	case strings.HasSuffix(s.lines[len(s.lines)-1], "less"):
		v.Rights = membrane.Read
	}
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		all, err := con.Asks(context.Background(), false)
		ok(s, err)
		for _, a := range all {
			if a.Guest == s.guest {
				_, err = con.Decide(context.Background(), a.ID, v)
				ok(s, err)
				return
			}
		}
	}
	s.Errorf("%s has asked for nothing", s.guest)
}
