package tests

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"capd/cap/wire"
	"capd/client"
	"capd/client/console"
	"capd/locator"
	"capd/meter"
	"capd/operator"
	"capd/vfs"
)

// TestAttackAuthority: guests try to have more than they were given, for longer or more often, and to be heard as somebody
// else.
func TestAttackAuthority(t *testing.T) {
	t.Parallel()
	h := serve(t)
	for _, c := range []struct {
		name string
		do   func(*testing.T, *authorityAttack)
	}{
		{"forged locators of shares", attackForged}, {"rights that grow", attackRights}, {"terms that grow", attackTerms},
		{"uses in a race", attackUses}, {"decisions in a race", attackDecisions}, {"rules exchanged during calls", attackRules},
		{"words of guests", attackWords},
	} {
		t.Run(c.name, func(t *testing.T) {
			attacks.add(t, toll{cases: 1, names: 1})
			c.do(t, &authorityAttack{hostProcess: h, t: t, con: h.console()})
		})
	}
}

// authorityAttack is a host under attack.
type authorityAttack struct {
	*hostProcess
	t   *testing.T
	con *console.Console
}

// given makes a grant, and returns its locator.
func (a *authorityAttack) given(name string, terms operator.Terms) string {
	a.t.Helper()
	_, loc, ctl, err := a.con.GrantOn(a.t.Context(), name, "project", terms)
	ok(a.t, err)
	ctl.Close()
	return loc
}

// refused counts a try, and an escape unless it was refused with one of the codes.
func (a *authorityAttack) refused(what string, err error, codes string) {
	a.t.Helper()
	attacks.tried(a.t, false)
	if !is(a.t, what, err, codes) {
		attacks.escape(a.t)
	}
}

// restore dials and restores a locator.
func (a *authorityAttack) restore(loc string) (vfs.Node, error) {
	c, err := client.Dial(a.t.Context(), loc)
	if err != nil {
		return nil, err
	}
	a.t.Cleanup(func() { c.Close() })
	return c.Node(a.t.Context())
}

// A secret that is close to one, or was made of one, is nobody's.
func attackForged(t *testing.T, a *authorityAttack) {
	top := dial(t, a.given("forged", operator.Terms{}))
	loc, r, err := top.Share(t.Context(), top.Dir(t.Context()))
	ok(t, err)
	shared, err := locator.Parse(loc)
	ok(t, err)
	parent, err := locator.Parse(a.given("forged2", operator.Terms{}))
	ok(t, err)
	forge := func(what string, secret [locator.SecretSize]byte, codes string) {
		l := shared
		l.Secret = secret
		_, err := a.restore(l.String())
		a.refused(what, err, codes)
	}
	for bit := 0; bit < 8*locator.SecretSize; bit += times(9, 1) {
		s := shared.Secret
		s[bit/8] ^= 1 << (bit % 8)
		forge(fmt.Sprint("bit ", bit), s, "denied")
	}
	forge("the digest", sha256.Sum256(shared.Secret[:]), "denied")
	forge("nothing", [locator.SecretSize]byte{}, "denied")
	mixed := shared.Secret
	copy(mixed[:16], parent.Secret[:])
	forge("half of another", mixed, "denied")
	ok(t, r.Revoke(t.Context()))
	forge("revoked", shared.Secret, "revoked")
}

// What was narrowed stays so, whatever is made of it.
func attackRights(t *testing.T, a *authorityAttack) {
	ctx := t.Context()
	conn := dial(t, a.given("rights", operator.Terms{Links: true}))
	whole := conn.Dir(ctx)
	ok(t, byPut(ctx, whole, "rights"))
	some := whole.Narrow(client.Read | client.List | client.Metadata | client.Link)
	loc, _, err := conn.Share(ctx, some)
	ok(t, err)
	revocable, _ := some.Revocable()
	again, err := some.Dup()
	ok(t, err)
	for name, d := range map[string]*client.Dir{
		"narrowed to all": some.Narrow(client.EveryRight), "narrowed to unknown ones": some.Narrow(^client.Rights(0)), "revocable": revocable,
		"again": again.(*client.Dir), "shared": dial(t, loc).Dir(ctx), "shared, narrowed": dial(t, loc).Dir(ctx).Narrow(client.EveryRight),
	} {
		for _, op := range strings.Split(creates+", "+changes+", "+wholes+", "+inPlace, ", ") {
			_, err := try(ctx, op, d.Cap(), "rights")
			a.refused(name+": "+op, err, "readOnly")
		}
		a.refused(name+": as the target of a move", whole.Move(ctx, "rights", d, "moved", vfs.If{}, vfs.If{}), "readOnly unsupported")
	}
	blind := whole.Narrow(client.Write | client.Delete | client.Move)
	for _, op := range strings.Split(reads, ", ") {
		_, err := try(ctx, op, blind.Narrow(client.AllRights).Cap(), "rights")
		if op == "list" {
			_, err = list(ctx, blind.Narrow(client.AllRights).Cap())
			err = wire.Decode(err)
		}
		a.refused("without read: "+op, err, "denied")
	}
	a.refused("a move without read", blind.Move(ctx, "rights", whole, "moved", vfs.If{}, vfs.If{}), "denied")
}

// A share ends with what it was made of, and stores no more, whatever its own terms say.
func attackTerms(t *testing.T, a *authorityAttack) {
	ctx := t.Context()
	conn := dial(t, a.given("terms", operator.Terms{Expires: time.Second, Uses: 2, Limits: meter.Limits{meter.StoredBytes: 1000}}))
	_, loc, _, err := conn.ShareOn(ctx, conn.Dir(ctx), client.ShareTerms{Expires: time.Hour, Uses: 1000, StoredBytes: 1 << 40})
	ok(t, err)
	share := dial(t, loc)
	_, err = share.Dir(ctx).Put(ctx, "terms", strings.NewReader(strings.Repeat("x", 5000)), vfs.If{})
	a.refused("more than its parent may store", err, "quota limit expired")
	_, _, _, err = share.ShareOn(ctx, share.Dir(ctx), client.ShareTerms{Uses: -1})
	a.refused("uses below none", err, "invalid expired")
	if !waitFor(patience, func() bool { _, err = a.restore(loc); return err != nil }) {
		attacks.escape(t)
	}
	a.refused("after its parent", err, "expired")
	a.refused("after its parent, as it is held", byPut(ctx, share.Dir(ctx), "terms"), "expired")
}

// Of many who restore at once, as many as there are uses get in.
func attackUses(t *testing.T, a *authorityAttack) {
	const uses, tries = 5, 48
	for range times(2, 20) {
		loc := a.given("uses", operator.Terms{Uses: uses})
		var in atomic.Int64
		var all sync.WaitGroup
		for range tries {
			all.Go(func() {
				_, err := a.restore(loc)
				if err == nil {
					in.Add(1)
				} else {
					a.refused("one too many", err, "expired")
				}
			})
		}
		all.Wait()
		if in.Load() != uses {
			attacks.escape(t)
			t.Errorf("%d got in, of %d", in.Load(), uses)
		}
	}
}

// What a rule denies is not done by a call that begins after the rule was set, however many are under way.
func attackRules(t *testing.T, a *authorityAttack) {
	ctx := t.Context()
	d := dial(t, a.given("ruled", operator.Terms{})).Dir(ctx)
	ok(t, byPut(ctx, d, "ruled"))
	set := func(text string) {
		t.Helper()
		now, err := a.con.Policy(ctx)
		ok(t, err)
		_, err = a.con.SetPolicy(ctx, text, now.Hash)
		ok(t, err)
	}
	defer set("[]")
	for range times(3, 40) {
		set("[]")
		var ruled, stop atomic.Bool
		var putters sync.WaitGroup
		for range 3 {
			putters.Go(func() {
				for !stop.Load() {
					content := fmt.Sprintln("late:", ruled.Load())
					_, _ = d.Put(ctx, "ruled", strings.NewReader(content), vfs.If{})
				}
			})
		}
		set(`[{effect: deny, patterns: ["project/ruled"], operations: [write]}]`)
		ruled.Store(true)
		for range 20 {
			_, err := d.Put(ctx, "ruled", strings.NewReader("late: true\n"), vfs.If{})
			a.refused("a put after the rule", err, "denied")
		}
		stop.Store(true)
		putters.Wait()
		if now, _, err := d.OpenFile("ruled").ReadText(ctx); err != nil || now == "late: true\n" {
			attacks.escape(t)
			t.Errorf("after the rule was set it became %q (%v)", now, err)
		}
	}
}
