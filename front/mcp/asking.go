package mcp

import (
	"context"
	"regexp"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"capd/client"
)

// waitingRequest finds the number of a request in the reasons of an explanation.
var waitingRequest = regexp.MustCompile(`request ([0-9a-f]{8}) waits`)

// request says how whoever runs the host finds the request that a call of t has left there: by its number, if the host tells that.
func (s *service) request(ctx context.Context, t *tool, args []byte) string {
	const listed = "capd asks shows what waits"
	var a struct{ Path, Source, Destination string }
	if jsonv2.Unmarshal(args, &a, jsonv2.MatchCaseInsensitiveNames(true)) != nil {
		return listed
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for _, q := range []struct {
		right    client.Rights
		from, to string
	}{{client.Write, a.Path, ""}, {client.Delete, a.Path, ""}, {client.Write, a.Destination, ""}, {client.Move, a.Source, a.Destination}} {
		if q.from == "" || q.right == client.Move && q.to == "" || t.needs&q.right == 0 {
			continue
		}
		from, err := s.roots.In(q.from)
		if err != nil {
			continue
		}
		to := ""
		if q.to != "" {
			if to, err = s.roots.In(q.to); err != nil {
				continue
			}
		}
		x, err := s.dir.Explain(ctx, q.right, from, to)
		if err != nil {
			continue
		}
		for _, reason := range x.Reasons {
			if m := waitingRequest.FindStringSubmatch(reason); m != nil {
				return "capd ask " + m[1] + " shows the request"
			}
		}
	}
	return listed
}
