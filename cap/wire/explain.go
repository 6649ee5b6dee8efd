package wire

import (
	"errors"

	schema "capd/capnp"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/membrane"
)

// RightOf returns the right for w, or 0 for one that this program does not know.
func RightOf(w schema.Right) membrane.Rights { return 1 << w & membrane.EveryRight }

// SetRight writes the one right in r with set. It answers invalid for none and for several.
func SetRight(r membrane.Rights, set func(schema.Right)) error {
	for w := range schema.Right(len(membrane.EveryRight.Names())) {
		if RightOf(w) == r {
			set(w)
			return nil
		}
	}
	return vfs.Errorf(vfs.Invalid, "%q is not one right; ask about one at a time", r)
}

var outcomes = map[operator.Outcome]schema.Explanation_Answer{
	operator.Yes: schema.Explanation_Answer_yes, operator.After: schema.Explanation_Answer_ask, operator.No: schema.Explanation_Answer_no,
}

// SetExplanation writes e.
func SetExplanation(w schema.Explanation, e operator.Explanation) error {
	w.SetAnswer(outcomes[e.Answer])
	return errors.Join(w.SetGrant(e.Grant), w.SetGuest(e.Guest), w.SetCode(e.Code), w.SetMessage_(e.Message),
		SetAll(e.Reasons, w.NewReasons, func(w schema.Explanation_Reason, r operator.Reason) error {
			w.SetSays(outcomes[r.Says])
			w.SetInMount(r.InMount)
			return errors.Join(w.SetWhat(r.What), w.SetText(r.Text), w.SetSource(r.Source))
		}))
}

// Explanation reads what SetExplanation wrote. An answer that this program does not know is "".
func Explanation(w schema.Explanation) (e operator.Explanation, err error) {
	text := Keep[string](&err)
	e = operator.Explanation{Grant: text(w.Grant()), Guest: text(w.Guest()), Code: text(w.Code()), Message: text(w.Message_())}
	e.Answer, _ = keyOf(outcomes, w.Answer())
	e.Reasons = Keep[[]operator.Reason](&err)(All(reason)(w.Reasons()))
	return e, err
}

func reason(w schema.Explanation_Reason) (r operator.Reason, err error) {
	text := Keep[string](&err)
	r = operator.Reason{What: text(w.What()), Text: text(w.Text()), Source: text(w.Source()), InMount: w.InMount()}
	r.Says, _ = keyOf(outcomes, w.Says())
	return r, err
}
