package tests

import (
	"os"
	"regexp"
)

// intents is the sign of a batch that has written down what it is about to do.
const intents = "state/journal/*/*.intent"

// overlaid makes an estate with waiting changes in an overlay on disk.
func (k *killed) overlaid() {
	k.Helper()
	k.fill("lower")
	k.fill("model")
	ok(k.TB, os.Mkdir(k.path("upper"), 0o755))
	const draft = "mounts:\n  - path: draft\n    url: overlay:upper=upper:physical:lower\n"
	const guest = "guests:\n  - name: guest\n"
	k.write("capd.yaml", draft+"  - path: model\n    url: physical:model\n"+guest)
	host := k.serve()
	edit(k.estate, host.guest().SubDir("model"))
	edit(k.estate, host.guest().SubDir("draft"))
	host.end()
	k.write("capd.yaml", draft+guest)
	k.modelled()
}

// modelled remembers the trees before and after the work. It removes the copy in
// which it tried the work.
func (k *killed) modelled() {
	k.Helper()
	k.before, k.model = contents(k.TB, k.path("lower")), contents(k.TB, k.path("model"))
	if k.before.differs(k.model) == "" {
		k.Fatal("vacuous: nothing is changed")
	}
	ok(k.TB, os.RemoveAll(k.path("model")))
}

// waiting returns what the overlay has changed over the lower tree.
func (r *round) waiting() string {
	r.Helper()
	return r.tells("diff", "draft", "--stat")
}

// settledDraft checks an overlay after an apply, or its undoing, was killed. The
// overlay shows the same as before, the lower tree is as before or as after, and
// the overlay can be applied.
func (r *round) settledDraft() (applied bool) {
	r.Helper()
	host := r.again()
	applied = r.whole(contents(r.TB, r.path("lower")), r.before, r.model)
	if d := r.model.differs(shown(r.TB, host.guest().SubDir("draft"))); d != "" {
		r.torn("the overlay shows something else: %.1000s", d)
	}
	if waits := r.waiting(); (waits == "") != applied {
		r.torn("applied: %v, and these changes wait: %.1000s", applied, waits)
	}
	r.tells("apply", "draft")
	host.end()
	if d := r.model.differs(contents(r.TB, r.path("lower"))); d != "" {
		r.torn("applied at last it is not as it should be: %.1000s", d)
	}
	r.clean()
	return applied
}

var applying = killing{
	name:    "apply",
	sign:    intents,
	prepare: (*killed).overlaid,
	begin: func(r *round) (func() error, func()) {
		host := r.serve()
		return r.cli("apply", "draft"), host.kill
	},
	after: (*round).settledDraft,
}

var undoID = regexp.MustCompile(`--undo (\S+)`)

var undoing = killing{
	name:    "undo",
	sign:    intents,
	prepare: (*killed).overlaid,
	begin: func(r *round) (func() error, func()) {
		r.Helper()
		host := r.serve()
		id := undoID.FindStringSubmatch(r.tells("apply", "draft"))
		return r.cli("apply", "draft", "--undo", id[1]), host.kill
	},
	after: func(r *round) bool { return !r.settledDraft() },
}

var reverting = killing{
	name:    "revert",
	prepare: (*killed).overlaid,
	begin: func(r *round) (func() error, func()) {
		host := r.serve()
		return r.cli("revert", "draft"), host.kill
	},
	after: func(r *round) (done bool) {
		r.Helper()
		host := r.again()
		if d := r.before.differs(contents(r.TB, r.path("lower"))); d != "" {
			r.torn("the lower tree was changed: %.1000s", d)
		}
		done = r.whole(shown(r.TB, host.guest().SubDir("draft")), r.model, r.before)
		if waits := r.waiting(); (waits == "") != done {
			r.torn("reverted: %v, and these changes wait: %.1000s", done, waits)
		}
		r.tells("revert", "draft")
		if d := r.before.differs(shown(r.TB, host.guest().SubDir("draft"))); d != "" {
			r.torn("reverted at last it is not as it should be: %.1000s", d)
		}
		host.end()
		r.clean()
		return done
	},
}
