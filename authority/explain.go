package authority

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"capd/approval"
	"capd/hook"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/membrane"
)

// Explain says for every live grant and share of guest, or for the one with that id, whether it allows what q asks about,
// and what decides. q's paths are from the top of the tree. If none is live, it says why the newest is not. It answers notFound
// for an unknown guest, and invalid for a question that cannot be asked. See [membrane.Explain].
func (h *Host) Explain(ctx context.Context, guest string, q membrane.Question) (out []operator.Explanation, err error) {
	all, err := h.of(guest)
	if err != nil {
		return nil, err
	}
	live := alive(all)
	if len(live) == 0 {
		live = all[len(all)-1:]
	}
	for _, r := range live {
		e, err := h.explain(ctx, r, q)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

func (h *Host) explain(ctx context.Context, r *row, q membrane.Question) (operator.Explanation, error) {
	out := operator.Explanation{Grant: idText(r.id), Guest: r.name}
	n, err := h.asIs(ctx, r, &q)
	out.Reasons = append(out.Reasons, operator.Reason{What: "grant", Says: says(err), Text: r.terms()})
	if err != nil {
		return refuse(out, err), nil
	}
	defer n.Close()
	x, err := membrane.Explain(ctx, n, q)
	if err != nil {
		return out, err
	}
	for _, why := range x.Reasons {
		said := reasonOf(why)
		if why.Locked && !why.Within && h.locked(r) {
			said.Text += "; setWritable(" + r.name + ", true) unlocks them"
		}
		out.Reasons = append(out.Reasons, said)
	}
	out.Reasons = append(out.Reasons, h.hooksAbout(r, x)...)
	stands := h.approvedAlways(r, x, &out)
	if err := h.db.Failed(); err != nil && h.record != nil && q.Right&membrane.ChangeRights != 0 {
		out.Reasons = append(out.Reasons, operator.Reason{What: "state", Says: operator.No, Text: vfs.Message(err)})
		x.Err = cmp.Or(x.Err, err)
	}
	switch {
	case x.Err != nil:
		return refuse(out, x.Err), nil
	case len(x.Asks) > 0 && !stands:
		out.Answer = operator.After
	default:
		out.Answer = operator.Yes
	}
	return out, nil
}

// locked reports whether r itself is locked. A lock above it, or at a path, does not count: [Host.SetWritable] does not end those.
func (h *Host) locked(r *row) bool {
	g := h.resident(r.id)
	if g == nil {
		return false
	}
	own, _ := g.control.Writable()
	return !own
}

// asIs returns what r leads to, as a guest would get it, and makes q's paths relative to it.
func (h *Host) asIs(ctx context.Context, r *row, q *membrane.Question) (vfs.Node, error) {
	for _, path := range []*string{&q.Path, &q.To} {
		if *path == "" && path == &q.To {
			continue
		}
		if !within(*path, r.path) {
			return nil, vfs.Errorf(vfs.Outside, "the grant is for %s, and does not reach this", cmp.Or(vfs.Printable(r.path), "everything"))
		}
		*path = strings.TrimPrefix(strings.TrimPrefix(*path, r.path), "/")
	}
	g, err := h.load(ctx, r.id)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	node := g.node
	h.mu.Unlock()
	if node == nil {
		return nil, cmp.Or(g.end(), errElsewhere)
	}
	return vfs.Dup(node)
}

// terms says what r gives, and what ends it.
func (r *row) terms() string {
	text := fmt.Sprintf("%s, for %s, with the rights %v, since %s", cmp.Or(vfs.Printable(r.path), "everything"), r.name, r.rights, atTime(r.since))
	if r.parent != 0 {
		text += ", shared from " + idText(r.parent)
	}
	if r.expires != 0 {
		text += ", until " + atTime(r.expires)
	}
	if r.unused != 0 {
		text += ", ends when unused for " + (time.Duration(r.unused) * time.Millisecond).String()
	}
	if r.uses != anyUses {
		text += ", " + strconv.FormatInt(r.uses, 10) + " uses left"
	}
	return text
}

func atTime(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

func says(err error) operator.Outcome {
	if err != nil {
		return operator.No
	}
	return operator.Yes
}

func refuse(e operator.Explanation, err error) operator.Explanation {
	e.Answer, e.Code, e.Message = operator.No, string(vfs.CodeOf(err)), vfs.Message(err)
	return e
}

func reasonOf(r membrane.Reason) operator.Reason {
	out := operator.Reason{What: r.What, Says: says(r.Err), Text: r.Text, Source: r.Source, InMount: r.Within}
	if r.Err == nil && r.What == membrane.AboutApproval {
		out.Says = operator.After
	}
	if r.Err != nil {
		out.Text = strings.TrimPrefix(r.Text+": "+vfs.Message(r.Err), ": ")
	}
	return out
}

// hooksAbout returns which hooks would be asked about the change that x is about. What they would answer is not known.
func (h *Host) hooksAbout(r *row, x membrane.Explanation) (all []operator.Reason) {
	if h.hooks == nil || len(x.Places) == 0 || !x.Kind.Changes() {
		return nil
	}
	about := hook.Change{HookedChange: operator.HookedChange{Operation: x.Kind.String(), Path: x.Places[0], Subject: string(r.subject), Grant: idText(r.id)}}
	if len(x.Places) > 1 {
		about.To = x.Places[1]
	}
	for _, name := range h.hooks.Asked(about) {
		all = append(all, operator.Reason{What: "hook", Says: operator.After, Text: name + " is asked, unless something else refuses the change"})
	}
	return all
}

// approvedAlways adds to out whether the change that x is about is approved for always, and reports it.
func (h *Host) approvedAlways(r *row, x membrane.Explanation, out *operator.Explanation) bool {
	if len(x.Asks) == 0 || h.asks == nil || len(x.Places) == 0 {
		return false
	}
	a := approval.Asked{Root: cmp.Or(r.top, r.id), Operation: x.Kind.String(), Path: x.Places[0]}
	if len(x.Places) > 1 {
		a.To = x.Places[1]
	}
	until, ok := h.asks.Stands(a)
	if ok {
		out.Reasons = append(out.Reasons, operator.Reason{What: membrane.AboutApproval, Says: operator.Yes, Text: "approved for always, until " + until.UTC().Format(time.RFC3339)})
	}
	return ok
}
