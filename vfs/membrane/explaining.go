package membrane

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"capd/vfs"
)

// explaining is an Explanation that is made.
type explaining struct {
	Explanation
	ctx   context.Context
	kind  OpKind
	need  mode // of the place that is asked about
	moves bool // likewise; see target
	trace bool // only what withholds a name is looked for
	deep  bool // inside a mount
}

func (x *explaining) add(what string, err error, text string) {
	x.Reasons = append(x.Reasons, Reason{What: what, Err: err, Text: text, Within: x.deep})
}

// first returns the first error of a reason.
func (x *explaining) first() error {
	for _, r := range x.Reasons {
		if r.Err != nil {
			return r.Err
		}
	}
	return nil
}

// waits adds to the reasons that need an approval which request waits for one, of those about the places below n.
func (x *explaining) waits(n vfs.Node) {
	v := viewIn(n)
	if v == nil || v.guards.waits == nil {
		return
	}
	for i, r := range x.Reasons {
		for _, path := range x.Places {
			if r.What != AboutApproval || r.Err != nil {
				continue
			}
			if id := v.guards.waits(v.base.meter, path); id != "" {
				x.Reasons[i].Text = r.Text + "; request " + id + " waits for one"
			}
		}
	}
}

// missing adds what refuses the operation if no reason does: the store found it out.
func (x *explaining) missing() {
	if x.Err == nil {
		return
	}
	for _, r := range x.Reasons {
		if vfs.CodeOf(r.Err) == vfs.CodeOf(x.Err) {
			return
		}
	}
	x.deep = false // the call itself says it
	x.add(about(x.Err), x.Err, "")
}

// about returns what an error is about that only the call itself has found out.
func about(err error) string {
	switch vfs.CodeOf(err) {
	case vfs.AskDenied, vfs.AskTimeout:
		return AboutApproval
	case vfs.Quota:
		return AboutQuota
	}
	return AboutStore
}

// lost adds why path cannot be reached below n, which was answered with err.
func (x *explaining) lost(n vfs.Node, path string, err error) {
	x.Err = err
	if d, ok := n.(vfs.Dir); ok && vfs.CodeOf(err) == vfs.Denied {
		x.trace = true
		_ = x.holding().In(d, []Op{{Kind: OpReplace, Path: path}}) // what it has to say is among the reasons
	}
	if x.first() == nil {
		x.add(AboutPath, err, "")
	}
}

// holding returns what asks the directories of a namespace.
func (x *explaining) holding() *Holding { return &Holding{ctx: x.ctx, explain: x} }

// traced adds what withholds the first of names that d's membrane withholds.
func (x *explaining) traced(d *dirView, names []string) {
	r := d.standing()
	for _, name := range names {
		if r = r.step(name); d.guards.hides(r) {
			x.withheld(d.guards, r, vfs.Denied)
			return
		}
	}
}

// withheld adds which guard or rule withholds the path of r.
func (x *explaining) withheld(s *guardSet, r *rules, err error) {
	what, source, text := AboutWithheld, "", ""
	for i, why := range s.hidden {
		if r.at[i].Matched() && why != nil && source == "" {
			source = why(r.at[i])
		}
	}
	if source == "" && r.judge != nil && r.judge.Passage() == Withheld {
		says := r.judge.Judge(Read)
		what, source, text = AboutRule, r.judge.Why(says).Source, ruleText(says)
	}
	x.add(what, err, text)
	x.Reasons[len(x.Reasons)-1].Source = source
}

// read explains a read at q.Path.
func (x *explaining) read(n vfs.Node, q Question) {
	at, err := n, error(nil)
	if q.Path != "" {
		d, ok := n.(vfs.Dir)
		if !ok {
			x.Err = vfs.NotDir
			return
		}
		if at, err = vfs.Walk(x.ctx, d, q.Path); err != nil {
			x.lost(n, q.Path, err)
			return
		}
		defer at.Close()
	}
	x.node(at)
	x.Err = cmp.Or(x.wrongKind(at), x.first())
}

func (x *explaining) wrongKind(n vfs.Node) error {
	_, file := n.(vfs.File)
	_, dir := n.(vfs.Dir)
	switch {
	case x.kind == OpRead && dir:
		return vfs.IsDir
	case x.kind == OpList && file:
		return vfs.NotDir
	}
	return nil
}

// node adds what decides about reading n, from its own membrane inward.
func (x *explaining) node(n vfs.Node) {
	switch n := n.(type) {
	case *fileView:
		x.view(&n.view, n)
		if x.kind == OpRead {
			x.bounds(n.standing().bounds(noRead), n.single(x.ctx, noRead))
		}
		x.inside(func() { x.node(n.file) })
	case *dirView:
		x.view(&n.view, nil)
		x.inside(func() { _ = x.holding().In(n.dir, []Op{{Kind: x.kind}}) }) // what it has to say is among the reasons
	}
}

// inside runs f for what is inside a membrane.
func (x *explaining) inside(f func()) {
	was := x.deep
	x.deep = true
	f()
	x.deep = was
}

// view adds what decides about a read on v, in the order of view.may. f is v if it is a file.
func (x *explaining) view(v *view, f *fileView) {
	if !x.deep {
		x.Places = append(x.Places, v.path)
	}
	need := x.kind.need()
	m := v.mode()
	x.gate(v, v.check(0))
	x.rights(m, v.mask, need, m.refuse(need))
	err := v.ruled(need)
	if f != nil && x.kind == OpRead && f.asksFirst(x.ctx, err) {
		err = x.askable(f)
	}
	x.rule(v.standing(), need, err)
}

// askable returns why nobody could approve that f is read, or nil.
func (x *explaining) askable(f *fileView) error {
	why := "rule " + f.standing().judge.Why(f.standing().judge.Judge(Read)).Source
	x.Asks = append(x.Asks, why)
	return f.guards.askRead(x.ctx, AskedRead{Path: f.path, Why: why, By: f.base.meter, OnRevoke: func(f func(error)) func() { return func() {} }})
}

func (x *explaining) gate(v *view, err error) {
	text := "not revoked"
	if until, ok := v.base.Deadline(); ok {
		text += ", expires at " + until.UTC().Format(time.RFC3339)
	}
	x.add(AboutGate, err, text)
}

// rights adds which rights there are, of those that are needed. mask is the part of m that was never given; the rest is locked.
func (x *explaining) rights(m, mask, need mode, err error) {
	locked := err != nil && m&need&changes != 0 && mask&need == 0
	text := "needs " + Rights(need&noRights).String() + ", has " + m.rights().String()
	if locked {
		text += "; the host has locked changes here"
	}
	x.add(AboutRights, err, text)
	x.Reasons[len(x.Reasons)-1].Locked = locked
}

// rule adds what the rules say.
func (x *explaining) rule(r *rules, need mode, err error) {
	if r.judge == nil {
		return
	}
	says := r.judge.Judge(Rights(need & noRights))
	why := &Ruled{Says: says.Says}
	if says.Says != Silent {
		why = r.judge.Why(says)
	}
	x.add(AboutRule, err, ruleText(says))
	x.Reasons[len(x.Reasons)-1].Source = why.Source
}

// ruleText says what the rules say.
func ruleText(says Verdict) string {
	if says.Says == Silent {
		return "no rule matches"
	}
	return "a rule says " + says.Says.String()
}

// bounds adds the bounds of the rules, if there are some.
func (x *explaining) bounds(b Bounds, err error) {
	var all []string
	if b.MaxFileBytes > 0 && x.kind.Changes() {
		all = append(all, "files of at most "+strconv.FormatInt(b.MaxFileBytes, 10)+" bytes")
	}
	if b.NoHardLinks {
		all = append(all, "no files with several names")
	}
	if len(all) > 0 || err != nil {
		x.add(AboutBounds, err, strings.Join(all, ", "))
	}
}
