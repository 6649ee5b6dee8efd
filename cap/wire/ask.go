package wire

import (
	"errors"
	"time"

	schema "capd/capnp"
	"capd/operator"
	"capd/vfs/membrane"
)

var answers = map[operator.Answer]schema.Ask_Answer{
	"": schema.Ask_Answer_none, operator.Once: schema.Ask_Answer_once, operator.Always: schema.Ask_Answer_always, operator.Deny: schema.Ask_Answer_deny,
}

// AnswerOf returns the answer of an operator. One that this program does not know is "unknown".
func AnswerOf(a schema.Ask_Answer) operator.Answer {
	if known, ok := keyOf(answers, a); ok {
		return known
	}
	return "unknown"
}

// Answer is the opposite of AnswerOf. A word that is no answer is none.
func Answer(a operator.Answer) schema.Ask_Answer { return answers[a] }

// moment is a time in milliseconds since 1970; 0 for the zero time.
func moment(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func timeAt(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// SetAsk writes a.
func SetAsk(w schema.Ask, a operator.Ask) error {
	w.SetSizeBytes(uint64(a.Size))
	w.SetAskedMs(moment(a.Asked))
	w.SetAnswer(answers[a.Answer])
	w.SetDecidedMs(moment(a.Decided))
	w.SetUsed(a.Used)
	return errors.Join(w.SetId(a.ID), w.SetGuest(a.Guest), w.SetGrant(a.Grant), w.SetOperation(a.Operation), w.SetPath(a.Path), w.SetTo(a.To),
		SetTexts(a.Why, w.NewWhy), w.SetDiff(a.Diff), w.SetReason(a.Reason), w.SetBy(a.By),
		w.SetRoot(a.Root), SetRights(a.Access, w.NewAccess), w.SetWords(a.Words), SetRights(a.Given, w.NewGiven))
}

// AskOf reads what SetAsk wrote.
func AskOf(w schema.Ask) (a operator.Ask, err error) {
	text := Keep[string](&err)
	a = operator.Ask{
		ID: text(w.Id()), Guest: text(w.Guest()), Grant: text(w.Grant()), Operation: text(w.Operation()), Path: text(w.Path()), To: text(w.To()),
		Why: Keep[[]string](&err)(Texts(w.Why())), Size: int64(w.SizeBytes()), Diff: text(w.Diff()), Asked: timeAt(w.AskedMs()),
		Answer: AnswerOf(w.Answer()), Reason: text(w.Reason()), By: text(w.By()), Decided: timeAt(w.DecidedMs()), Used: w.Used(),
		Root: text(w.Root()), Access: Keep[membrane.Rights](&err)(Rights(w.Access())), Words: text(w.Words()), Given: Keep[membrane.Rights](&err)(Rights(w.Given())),
	}
	return a, err
}

// SetApproval writes s.
func SetApproval(w schema.Approval, s operator.Standing) error {
	w.SetNumber(s.ID)
	w.SetUntilMs(moment(s.Until))
	return errors.Join(w.SetAsk(s.Ask), w.SetGrant(s.Grant), w.SetOperation(s.Operation), w.SetPath(s.Path), w.SetTo(s.To), w.SetPattern(s.Pattern))
}

// Approval reads what SetApproval wrote.
func Approval(w schema.Approval) (s operator.Standing, err error) {
	text := Keep[string](&err)
	s = operator.Standing{
		ID: w.Number(), Ask: text(w.Ask()), Grant: text(w.Grant()), Operation: text(w.Operation()), Path: text(w.Path()), To: text(w.To()),
		Pattern: text(w.Pattern()), Until: timeAt(w.UntilMs()),
	}
	return s, err
}

// SetEvent writes e.
func SetEvent(w schema.Event, e operator.Event) error {
	w.SetNumber(e.Number)
	return w.SetEntry(e.Entry)
}

// Event reads what SetEvent wrote.
func Event(w schema.Event) (operator.Event, error) {
	entry, err := w.Entry()
	return operator.Event{Number: w.Number(), Entry: append([]byte(nil), entry...)}, err
}
