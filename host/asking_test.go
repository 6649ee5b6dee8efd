package host_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"capd/approval"
	"capd/authority"
	"capd/backend/memory"
	"capd/client"
	"capd/database"
	"capd/host"
	"capd/locator"
	"capd/meter"
	"capd/operator"
	"capd/policy"
	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest/check"
)

// board is a host with roots r0, r1, …, in which somebody decides.
type board struct {
	*testing.T
	authority *authority.Host
	server    *host.Server
	desk      *approval.Desk
}

const maxRoots = approval.MaxPending + 1

// onBoard runs f in a bubble, with a host.
func onBoard(t *testing.T, f func(b *board)) {
	synctest.Test(t, func(t *testing.T) {
		tree := memory.New(memory.Limits{}).Root()
		var roots []operator.Root
		for i := range maxRoots {
			name := fmt.Sprintf("r%d", i)
			d, err := tree.Mkdir(t.Context(), name)
			ok(t, err)
			ok(t, d.Close())
			roots = append(roots, operator.Root{ID: name, Kind: operator.Workspace, Path: name})
		}
		db := database.Memory()
		defer db.Close()
		desk, err := approval.Open(t.Context(), db, approval.Options{Patient: true})
		ok(t, err)
		all, err := policy.NewRoots(roots)
		ok(t, err)
		clock := membrane.NewClock(time.Now)
		a := authority.Open(tree, authority.Options{DB: db, Asks: desk, Roots: all, Clock: clock})
		defer a.Close()
		s := host.New(a, host.Options{})
		defer s.Close()
		f(&board{t, a, s, desk})
	})
}

func (b *board) invite(subject string, permissions ...operator.Permission) (id string, secret [locator.SecretSize]byte) {
	b.Helper()
	i, secret, err := b.authority.Invite(b.Context(), subject, operator.InviteTerms{Permissions: permissions})
	ok(b, err)
	return i.ID, secret
}

// connect connects with the locator of an invitation.
func (b *board) connect(secret [locator.SecretSize]byte) (*client.Conn, *client.Petitioner) {
	near, far := net.Pipe()
	b.server.Guest(far)
	c := client.NewConn(near, locator.Locator{Secret: secret})
	return c, c.Petitioner(b.Context())
}

// waits returns what waits for a decision, when nothing else happens.
func (b *board) waits() []operator.Ask {
	b.Helper()
	synctest.Wait()
	all, err := b.desk.List(b.Context(), false, operator.Ask{})
	ok(b, err)
	return all
}

// decide decides about the only request that waits.
func (b *board) decide(v operator.Verdict) {
	b.Helper()
	all := b.waits()
	if len(all) != 1 {
		b.Fatalf("%d requests wait: %+v", len(all), all)
	}
	_, err := b.desk.Decide(all[0].ID, v, "test")
	ok(b, err)
}

// put changes a file in d, and returns where its outcome will be.
func (b *board) put(d *client.Dir, name string) <-chan error {
	ended := make(chan error, 1)
	go func() {
		_, err := d.Put(context.Background(), name, strings.NewReader("text"), vfs.If{})
		ended <- err
	}()
	return ended
}

func (b *board) gone(c *client.Conn) bool {
	synctest.Wait()
	select {
	case <-c.Done():
		return true
	default:
		return false
	}
}

var once = operator.Verdict{Answer: operator.Once}

// Calls on what was asked for wait, and run after a yes. After a no they fail with the reason.
func TestPromises(t *testing.T) {
	onBoard(t, func(b *board) {
		_, secret := b.invite("agent")
		c, p := b.connect(secret)
		defer c.Close()
		d := p.RequestDir(b.Context(), "r0", membrane.AllRights, "to write")
		put := b.put(d, "f")
		b.decide(once)
		ok(b, <-put)
		text, _, err := d.OpenFile("f").ReadText(b.Context())
		if ok(b, err); text != "text" {
			b.Errorf("it reads %q", text)
		}

		put = b.put(p.RequestDir(b.Context(), "r1", membrane.Write, ""), "f")
		b.decide(operator.Verdict{Answer: operator.Deny, Reason: "not now"})
		check.Is(b, "a call on what was denied", <-put, vfs.Denied)
		check.Is(b, "an equal request", <-b.put(p.RequestDir(b.Context(), "r1", membrane.Write, "again"), "f"), vfs.Denied)
		if n := len(b.waits()); n != 0 {
			b.Errorf("%d requests wait after all was decided", n)
		}
	})
}

// What is given may be less than was asked for, and never more.
func TestLessThanAsked(t *testing.T) {
	onBoard(t, func(b *board) {
		_, secret := b.invite("agent")
		c, p := b.connect(secret)
		defer c.Close()
		d := p.RequestDir(b.Context(), "r0", membrane.Read|membrane.List|membrane.Write, "")
		put := b.put(d, "f")
		all := b.waits()
		_, err := b.desk.Decide(all[0].ID, operator.Verdict{Answer: operator.Once, Rights: membrane.Delete | membrane.Read}, "test")
		check.Is(b, "more than was asked for", err, vfs.Invalid)
		b.decide(operator.Verdict{Answer: operator.Once, Rights: membrane.Read | membrane.List})
		check.Is(b, "a put without the right", <-put, vfs.ReadOnly)
		has, err := d.Rights(b.Context())
		if ok(b, err); has != membrane.Read|membrane.List {
			b.Errorf("it has %v", has)
		}
		g := b.authority.Roots()
		_, err = b.desk.Show(b.Context(), all[0].ID)
		ok(b, err)
		if len(g) != maxRoots {
			b.Errorf("%d roots", len(g))
		}
	})
}

// A connection that may ask may be silent, longer than a decision may take. A decision that nobody waits for is kept for 10
// minutes, and for what is asked over another connection.
func TestNobodyDecides(t *testing.T) {
	onBoard(t, func(b *board) {
		_, secret := b.invite("agent")
		c, p := b.connect(secret)
		defer c.Close()
		begun := time.Now()
		check.Is(b, "a call on what nobody decides about", <-b.put(p.RequestDir(b.Context(), "r0", membrane.AllRights, ""), "f"), vfs.AskTimeout)
		if took := time.Since(begun); took != approval.Patience {
			b.Errorf("it took %v", took)
		}
		time.Sleep(3 * host.StrangerIdle)
		if b.gone(c) {
			b.Fatal("who may ask was ended for silence")
		}
		again := b.put(p.RequestDir(b.Context(), "r0", membrane.AllRights, "really"), "f")
		if n := len(b.waits()); n != 1 {
			b.Errorf("%d requests wait after an equal one", n)
		}
		ok(b, c.Close())
		<-again
		b.decide(once)
		time.Sleep(approval.Holds - time.Second)
		other, p := b.connect(secret)
		ok(b, <-b.put(p.RequestDir(b.Context(), "r0", membrane.AllRights, ""), "f"))
		ok(b, other.Close())
		time.Sleep(2 * time.Second)
		last, p := b.connect(secret)
		defer last.Close()
		late := b.put(p.RequestDir(b.Context(), "r0", membrane.AllRights, ""), "f")
		if n := len(b.waits()); n != 1 {
			b.Errorf("%d requests wait 10 minutes after the decision", n)
		}
		b.decide(operator.Verdict{Answer: operator.Deny})
		check.Is(b, "a call on what was denied", <-late, vfs.Denied)
	})
}

// What was given once ends when no connection has used it for 10 minutes. What was given always does not.
func TestOnceEnds(t *testing.T) {
	onBoard(t, func(b *board) {
		_, secret := b.invite("agent")
		c, p := b.connect(secret)
		put := b.put(p.RequestDir(b.Context(), "r0", membrane.Write, ""), "f")
		b.decide(once)
		ok(b, <-put)
		put = b.put(p.RequestDir(b.Context(), "r1", membrane.Write, ""), "f")
		b.decide(operator.Verdict{Answer: operator.Always, For: time.Hour})
		ok(b, <-put)
		states := func() (all []operator.State) {
			gs, err := b.authority.Grants("", 10)
			ok(b, err)
			for _, g := range gs {
				all = append(all, g.State)
			}
			return all
		}
		time.Sleep(30 * time.Minute) // both are held
		ok(b, <-b.put(p.RequestDir(b.Context(), "r1", membrane.Write, ""), "g"))
		if got := fmt.Sprint(states()); got != "[active active]" {
			b.Errorf("while a connection holds them: %s", got)
		}
		ok(b, c.Close())
		time.Sleep(11 * time.Minute)
		if got := fmt.Sprint(states()); got != "[expired active]" {
			b.Errorf("11 minutes after the connection: %s", got)
		}
		c, p = b.connect(secret)
		defer c.Close()
		ok(b, <-b.put(p.RequestDir(b.Context(), "r1", membrane.Write, ""), "h"))
		time.Sleep(20 * time.Minute)
		if got := fmt.Sprint(states()); got != "[expired expired]" {
			b.Errorf("an hour after: %s", got)
		}
	})
}

// One request for a root waits at a time, and 16 of a subject. One that no call waits for gives way.
func TestOnePendingARoot(t *testing.T) {
	onBoard(t, func(b *board) {
		_, secret := b.invite("agent")
		c, p := b.connect(secret)
		other, q := b.connect(secret)
		defer other.Close()
		first := b.put(p.RequestDir(b.Context(), "r0", membrane.Read, ""), "f")
		b.waits()
		check.Is(b, "another request for the root", <-b.put(q.RequestDir(b.Context(), "r0", membrane.Write, ""), "f"), vfs.Limit)
		for i := 1; i < approval.MaxPending; i++ {
			b.put(p.RequestDir(b.Context(), fmt.Sprintf("r%d", i), membrane.Read, ""), "f")
		}
		b.waits()
		last := fmt.Sprintf("r%d", approval.MaxPending)
		check.Is(b, "one more than may wait", <-b.put(q.RequestDir(b.Context(), last, membrane.Read, ""), "f"), vfs.Limit)
		ok(b, c.Close())
		<-first
		b.waits()
		b.put(q.RequestDir(b.Context(), last, membrane.Read, ""), "f")
		if n := len(b.waits()); n != approval.MaxPending {
			b.Errorf("%d requests wait", n)
		}
	})
}

// Whoever may ask keeps the limits of a stranger: all of them together wait for 64 decisions at most.
func TestPetitionersAreStrangers(t *testing.T) {
	onBoard(t, func(b *board) {
		most := int(meter.StrangerLimits()[meter.Waits])
		strangers := b.authority.Meters().Strangers()
		var refused error
		for i := range most/approval.MaxPending + 1 {
			_, secret := b.invite(fmt.Sprintf("agent%d", i))
			c, p := b.connect(secret)
			defer c.Close()
			for j := range approval.MaxPending {
				d := p.RequestDir(b.Context(), fmt.Sprintf("r%d", j), membrane.Read, "")
				defer d.Close()
				synctest.Wait()
				if len(b.waits()) < most {
					continue
				}
				ended := b.put(d, "f")
				synctest.Wait()
				select {
				case refused = <-ended:
				default:
				}
			}
		}
		check.Is(b, "one more than strangers may wait for", refused, vfs.Limit)
		if n := strangers.Used(meter.Waits); n != int64(most) {
			b.Errorf("%d of the strangers' waits are used", n)
		}
		if n := strangers.Used(meter.Connections); n != int64(most/approval.MaxPending+1) {
			b.Errorf("%d of the strangers' connections are used", n)
		}
	})
}

// An invitation is for few connections at once. The oldest gives way.
func TestFifthConnection(t *testing.T) {
	onBoard(t, func(b *board) {
		_, secret := b.invite("agent")
		var all []*client.Conn
		for range 5 {
			c, p := b.connect(secret)
			defer c.Close()
			_, err := p.Roots(b.Context())
			ok(b, err)
			all = append(all, c)
		}
		time.Sleep(time.Second)
		if !b.gone(all[0]) || b.gone(all[1]) {
			b.Errorf("gone: the first %v, the second %v", b.gone(all[0]), b.gone(all[1]))
		}
		check.Is(b, "the first", all[0].Err(), vfs.Limit)
	})
}

// When an invitation ends, so does what waits, and each connection that holds nothing else.
func TestInviteEnds(t *testing.T) {
	onBoard(t, func(b *board) {
		id, secret := b.invite("agent")
		c, p := b.connect(secret)
		defer c.Close()
		holder, q := b.connect(secret)
		defer holder.Close()
		d := q.RequestDir(b.Context(), "r1", membrane.Write, "")
		put := b.put(d, "f")
		b.decide(once)
		ok(b, <-put)
		waiting := b.put(p.RequestDir(b.Context(), "r0", membrane.Write, ""), "f")
		b.waits()
		ok(b, b.authority.RevokeInvite(id))
		check.Is(b, "what waited", <-waiting, vfs.Revoked)
		if n := len(b.waits()); n != 0 {
			b.Errorf("%d requests wait that nobody can use", n)
		}
		time.Sleep(time.Second)
		if !b.gone(c) || b.gone(holder) {
			b.Errorf("gone: who holds nothing %v, who holds a grant %v", b.gone(c), b.gone(holder))
		}
		ok(b, <-b.put(d, "g"))
		_, err := q.Roots(b.Context())
		check.Is(b, "asking by it", err, vfs.Revoked)
		late, r := b.connect(secret)
		defer late.Close()
		_, err = r.Roots(b.Context())
		check.Is(b, "restoring it", err, vfs.Revoked)
	})
}

// A connection whose grants were taken back may still ask, as a stranger. When it gives up its Petitioner it is one like others.
func TestStrangerAgain(t *testing.T) {
	onBoard(t, func(b *board) {
		strangers := b.authority.Meters().Strangers()
		_, secret := b.invite("agent", operator.Permission{Kind: operator.Workspace, Rights: membrane.Write})
		c, p := b.connect(secret)
		defer c.Close()
		d := p.RequestDir(b.Context(), "r0", membrane.Write, "")
		ok(b, <-b.put(d, "f")) // nobody is asked
		if n := strangers.Used(meter.Connections); n != 0 {
			b.Errorf("%d strangers, although the only connection holds a grant", n)
		}
		_, err := b.authority.Revoke("g1")
		ok(b, err)
		check.Is(b, "what was taken back", <-b.put(d, "f"), vfs.Revoked)
		time.Sleep(3 * host.StrangerIdle)
		if b.gone(c) {
			b.Fatal("who may ask was ended")
		}
		if n := strangers.Used(meter.Connections); n != 1 {
			b.Errorf("%d strangers", n)
		}
		put := b.put(p.RequestDir(b.Context(), "r0", membrane.Write, ""), "f") // it was taken back, so somebody is asked
		b.decide(once)
		ok(b, <-put)
		_, err = b.authority.Revoke("g2")
		ok(b, err)
		ok(b, p.Close())
		time.Sleep(3 * host.StrangerIdle)
		if !b.gone(c) {
			b.Error("a stranger without a Petitioner may be silent")
		}
	})
}
