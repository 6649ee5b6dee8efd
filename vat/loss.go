package vat

import "slices"

// A loss is a call that failed before its handler ran, because it was cancelled while it waited, or refused
// at a limit. If it was a call of a stream, the later calls are not the whole stream. So the object that
// receives the stream is told (StreamBroken, see Serve).
type loss struct {
	call methodKey
	why  *Exception
}

// lossAt is a loss on a part of an outcome that is not known yet.
type lossAt struct {
	path []uint16
	loss
}

// losses are the losses of one promise, at most one for each method.
type losses []loss

// maxLosses bounds what a promise or an answer remembers. Each entry has another method or path.
const maxLosses = 64

// lose reports a loss to the object that t leads to, now or when it is known. A loss on a capability of a
// peer is not passed on.
func lose(t target, l loss) {
	switch t := t.(type) {
	case *object:
		if h := t.table.find(l.call.iface, l.call.method); h != nil && h.stream {
			t.streamBroken(l.why)
		}
	case *promise:
		t.lose(l)
	}
}

// streamBroken tells the value of o that a streaming call on it has failed.
func (o *object) streamBroken(why *Exception) {
	s, ok := o.self.(interface{ StreamBroken(*Exception) })
	if !ok {
		return
	}
	defer reportPanic("StreamBroken")
	s.StreamBroken(why)
}

// lose is lose for a promise. If p is part of an answer, the answer remembers the loss, because p may be
// released as soon as no call waits on it.
func (p *promise) lose(l loss) {
	if p.ans != nil {
		p.ans.lose(lossAt{p.path, l})
		return
	}
	p.mu.Lock()
	if !slices.ContainsFunc(p.losses, func(old loss) bool { return old.call == l.call }) && len(p.losses) < maxLosses {
		p.losses = append(p.losses, l)
	}
	p.mu.Unlock()
	p.passLosses()
}

// passLosses passes on the losses of p once it is decided where p leads.
func (p *promise) passLosses() {
	p.mu.Lock()
	if len(p.losses) == 0 || !p.final || p.dst == nil {
		p.mu.Unlock()
		return
	}
	dst, list := p.dst, p.losses
	p.losses = nil
	dst.retain()
	p.mu.Unlock()
	for _, l := range list {
		lose(dst, l)
	}
	dst.release()
}

// lose remembers a loss until a is done.
func (a *answer) lose(l lossAt) {
	a.mu.Lock()
	if a.done {
		a.mu.Unlock()
		a.passLoss(l)
		return
	}
	if len(a.losses) < maxLosses && !slices.ContainsFunc(a.losses, func(old lossAt) bool {
		return old.call == l.call && slices.Equal(old.path, l.path)
	}) {
		l.path = slices.Clone(l.path) // it is memory of the promise, which may be released
		a.losses = append(a.losses, l)
	}
	a.mu.Unlock()
}

// passLoss reports a loss to the part of the outcome that it is about.
func (a *answer) passLoss(l lossAt) {
	t := a.pick(l.path)
	lose(t, l.loss)
	t.release()
}
