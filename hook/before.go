package hook

import (
	"context"
	"errors"
	"strconv"

	"capd/operator"
	"capd/record"
	"capd/vfs"
)

// Before asks the hooks that c concerns, in order. asks are the reasons of those that want an operator asked, and said what
// the record keeps of each. It answers denied if a hook is against the change or has failed, and ctx's error if ctx
// ends. The caller gives up what others could want; see [vfs.Aside].
func (c *Chain) Before(ctx context.Context, change Change) (asks []string, said []record.Hooked, err error) {
	all, cancel := context.WithTimeoutCause(ctx, c.together, errTogether)
	defer cancel()
	for _, h := range c.concerned(&change) {
		answer, reason, err := c.ask(all, h, change.HookedChange)
		if ctx.Err() != nil {
			return nil, said, context.Cause(ctx)
		}
		s := record.Hooked{Name: h.Name}
		switch {
		case err != nil:
			failed := err
			c.failures.before.Add(1)
			s.Said = "failed: it " + vfs.Message(err)
			err = vfs.Errorf(vfs.Denied, "the hook %s %s", h.Name, vfs.Message(err))
			c.logf("capd: the hook %s %s", h.Name, detailed(failed))
		case answer == operator.HookDeny:
			s.Said = "deny: " + reason
			err = vfs.Errorf(vfs.Denied, "the hook %s said no%s", h.Name, because(reason))
		case answer == operator.HookAsk:
			s.Said = "ask: " + reason
		}
		said = append(said, s)
		switch {
		case h.Observe:
		case err != nil:
			return nil, said, err
		case answer == operator.HookAsk:
			asks = append(asks, "hook "+h.Name+because(reason))
		}
	}
	return asks, said, nil
}

// because returns a reason behind a colon.
func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// detailed returns what is wrong with a hook, for the host's log.
func detailed(err error) string {
	if e, ok := errors.AsType[*vfs.Error](err); ok && e.Cause != nil {
		return vfs.Message(err) + ": " + vfs.Printable(e.Cause.Error())
	}
	return vfs.Message(err)
}

var (
	errTogether = errors.New("the time of all hooks is over")
	errEach     = errors.New("the time of this hook is over")
	errGone     = vfs.Errorf(vfs.Denied, "is not connected; the host's operator can start it again, or remove it with capd hooks rm")
)

// ask asks one hook. An error says what is wrong with it, as the end of a sentence.
func (c *Chain) ask(ctx context.Context, h *hook, change operator.HookedChange) (answer operator.HookAnswer, reason string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.each, errEach)
	defer cancel()
	answer, reason, err = c.called(ctx, h, change)
	switch cause := context.Cause(ctx); {
	case cause == errEach:
		return "", "", vfs.Errorf(vfs.Denied, "did not answer within %v", c.each)
	case cause == errTogether:
		return "", "", vfs.Errorf(vfs.Denied, "did not answer in time: all hooks together have %v", c.together)
	case err != nil:
		return "", "", err
	case answer != operator.HookOK && answer != operator.HookDeny && answer != operator.HookAsk:
		return "", "", vfs.Errorf(vfs.Denied, "answered %s, which is none of ok, deny and ask", strconv.Quote(shortened(string(answer), 64)))
	}
	return answer, shortened(vfs.Printable(reason), MaxReason), nil
}

// called calls h when few others run.
func (c *Chain) called(ctx context.Context, h *hook, change operator.HookedChange) (operator.HookAnswer, string, error) {
	if h.by == nil || h.by.Gone() {
		return "", "", errGone
	}
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return "", "", context.Cause(ctx)
	}
	return h.by.Before(ctx, change)
}

// shortened returns at most the first max bytes of s.
func shortened(s string, max int) string { return s[:min(len(s), max)] }
