package wire

import (
	"errors"

	schema "capd/capnp"
	"capd/operator"
)

// hookAnswers are the answers of hooks on the wire.
var hookAnswers = map[operator.HookAnswer]schema.Hook_Answer{
	operator.HookOK: schema.Hook_Answer_ok, operator.HookDeny: schema.Hook_Answer_deny, operator.HookAsk: schema.Hook_Answer_ask,
}

// HookAnswerOf returns an answer of a hook, "" for one that this host does not know.
func HookAnswerOf(a schema.Hook_Answer) operator.HookAnswer {
	answer, _ := keyOf(hookAnswers, a)
	return answer
}

// HookAnswer returns a for the wire. Anything unknown is deny.
func HookAnswer(a operator.HookAnswer) schema.Hook_Answer {
	if w, ok := hookAnswers[a]; ok {
		return w
	}
	return schema.Hook_Answer_deny
}

// SetHookSpec writes what is registered of h over the console.
func SetHookSpec(w schema.HookSpec, h operator.Hook) error {
	w.SetBefore(h.Before)
	w.SetAfter(h.After)
	w.SetObserve(h.Observe)
	return errors.Join(w.SetName(h.Name), w.SetSubject(h.Subject), SetTexts(h.Operations, w.NewOperations), SetTexts(h.Patterns, w.NewPatterns))
}

// HookSpec reads what SetHookSpec wrote.
func HookSpec(w schema.HookSpec) (h operator.Hook, err error) {
	text, texts := Keep[string](&err), Keep[[]string](&err)
	h = operator.Hook{
		Name: text(w.Name()), Subject: text(w.Subject()), Operations: texts(Texts(w.Operations())), Patterns: texts(Texts(w.Patterns())),
		Before: w.Before(), After: w.After(), Observe: w.Observe(),
	}
	return h, err
}

// SetHookState writes s.
func SetHookState(w schema.HookState, s operator.HookState) error {
	w.SetGone(s.Gone)
	w.SetBehind(s.Behind)
	spec, err := w.NewSpec()
	if err != nil {
		return err
	}
	return errors.Join(SetHookSpec(spec, s.Hook), SetTexts(s.Command, w.NewCommand), w.SetSource(s.Source), w.SetFailing(s.Failing))
}

// HookState reads what SetHookState wrote.
func HookState(w schema.HookState) (s operator.HookState, err error) {
	if s.Hook, err = One(HookSpec)(w.Spec()); err != nil {
		return s, err
	}
	text := Keep[string](&err)
	s.Command, s.Source = Keep[[]string](&err)(Texts(w.Command())), text(w.Source())
	s.Gone, s.Behind, s.Failing = w.Gone(), w.Behind(), text(w.Failing())
	return s, err
}

// SetHookedChange writes c.
func SetHookedChange(w schema.HookedChange, c operator.HookedChange) error {
	return errors.Join(w.SetOperation(c.Operation), w.SetPath(c.Path), w.SetTo(c.To), w.SetRoot(c.Root), w.SetSubject(c.Subject), w.SetGrant(c.Grant))
}

// HookedChange reads what SetHookedChange wrote.
func HookedChange(w schema.HookedChange) (c operator.HookedChange, err error) {
	text := Keep[string](&err)
	c = operator.HookedChange{Operation: text(w.Operation()), Path: text(w.Path()), To: text(w.To()), Root: text(w.Root()), Subject: text(w.Subject()), Grant: text(w.Grant())}
	return c, err
}

// SetHookOutcome writes o.
func SetHookOutcome(w schema.Hook_Outcome, o operator.HookOutcome) error {
	w.SetAtMs(o.AtMs)
	return errors.Join(w.SetId(o.ID), w.SetResult(o.Result), w.SetCode(o.Code))
}

// HookOutcome reads what SetHookOutcome wrote.
func HookOutcome(w schema.Hook_Outcome) (o operator.HookOutcome, err error) {
	text := Keep[string](&err)
	o = operator.HookOutcome{ID: text(w.Id()), Result: text(w.Result()), Code: text(w.Code()), AtMs: w.AtMs()}
	return o, err
}
