package tests

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"capd/client"
	"capd/client/console"
	"capd/meter"
	"capd/operator"
	"capd/vfs"
)

// moveMounts are the stores between which things are moved.
var moveMounts = []string{"disk", "other", "memory", "over"}

// moveEstate has a configuration that mounts them.
func moveEstate(t testing.TB) *estate {
	t.Helper()
	dir, err := os.MkdirTemp("", "capd")
	ok(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	w := &estate{t, dir}
	for _, d := range []string{"disk", "other", "lower"} {
		ok(t, os.Mkdir(w.path(d), 0o755))
	}
	w.write("capd.yaml", `mounts:
  - path: disk
    url: physical:disk
  - path: other
    url: physical:other
  - path: memory
    url: "memory:"
  - path: over
    url: overlay:physical:lower
guests:
  - name: guest
`)
	return w
}

// TestAttackMoves: guests write into what another moves from store to store, and moves end
// at any moment. No byte that was answered is lost, and nothing is left or counted twice.
func TestAttackMoves(t *testing.T) {
	t.Parallel()
	t.Run("late writes", lateWrites)
	t.Run("ended", movesEnded)
	t.Run("killed", movesKilled)
	t.Run("refused", movesRefused)
}

// lateWriter writes into box, wherever it is, until over. It rests between two writes for up to rest, in microseconds. Each of its
// writers has names of its own.
func lateWriter(ctx context.Context, who int, root *client.Dir, told *written, rest *atomic.Int64, over *atomic.Bool) {
	random := rand.New(rand.NewPCG(uint64(who), 7))
	for n := 1; !over.Load(); n++ {
		box := moveMounts[random.IntN(len(moveMounts))] + "/box/"
		if random.IntN(2) == 0 {
			box += "deep/"
		}
		put := func(name, data string) error {
			_, err := root.Put(ctx, box+name, strings.NewReader(data), vfs.If{})
			return err
		}
		own := func(what string) string { return fmt.Sprintf("%s-%d", what, who) }
		switch random.IntN(6) {
		case 0:
			name, data := fmt.Sprintf("f-%d-%d", who, n), fmt.Sprintf("content %d of %d", n, who)
			if put(name, data) == nil {
				told.file(name, data)
			}
		case 1:
			if put(own("counter"), fmt.Sprintf("%08d", n)) == nil {
				told.count(own("counter"), n)
			}
		case 2:
			if f, err := vfs.WalkFile(ctx, root, box+own("counter")); err == nil {
				if _, err := f.WriteAt(ctx, fmt.Appendf(nil, "%08d", n), 0, vfs.If{}); err == nil {
					told.count(own("counter"), n)
				}
				f.Close()
			}
		case 3:
			if f, err := vfs.WalkFile(ctx, root, box+own("log")); err == nil {
				token := fmt.Sprintf("<%d>", n)
				if _, err := f.(*client.File).Append(ctx, []byte(token), vfs.If{}); err == nil {
					told.log(own("log"), token)
				}
				f.Close()
			} else if vfs.CodeOf(err) == vfs.NotFound {
				_, _ = root.Put(ctx, box+own("log"), nothing(), vfs.If{Absent: true})
			}
		case 4: // a directory becomes a file
			name := fmt.Sprintf("d-%d-%d", who, n)
			if d, err := root.CreateDir(ctx, box+name); err == nil {
				d.Close()
				if root.RemovePath(ctx, box+name, vfs.If{}) == nil && put(name, "was a directory") == nil {
					told.file(name, "was a directory")
				}
			}
		case 5: // a link becomes a file
			name := fmt.Sprintf("l-%d", who+3*random.IntN(13))
			told.gone(name)
			if root.RemovePath(ctx, box+name, vfs.If{}) == nil {
				if _, err := root.Put(ctx, box+name, strings.NewReader(name), vfs.If{Absent: true}); err == nil {
					told.file(name, name)
				}
			}
		}
		time.Sleep(time.Duration(random.Int64N(rest.Load())) * time.Microsecond)
	}
}

// How long a lateWriter rests, in microseconds.
const (
	shortRest = 3000
	longRest  = 2_000_000
)

func lateWrites(t *testing.T) {
	w := moveEstate(t)
	ok(t, os.MkdirAll(w.path("disk/box/deep"), 0o755))
	for i := range 40 {
		ok(t, os.Symlink("nowhere", w.path(fmt.Sprintf("disk/box/l-%d", i))))
	}
	host := w.serve()
	told := &written{files: map[string]string{}, counts: map[string]int{}, logs: map[string][]string{}}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var over atomic.Bool
	var rest atomic.Int64
	rest.Store(shortRest)
	var writers sync.WaitGroup
	for who := range 3 {
		root := host.guest()
		writers.Go(func() { lateWriter(ctx, who, root, told, &rest, &over) })
	}
	mover := host.guest()
	random := rand.New(rand.NewPCG(8, 9))
	at, moved, refused := "disk", 0, map[vfs.Code]int{}
	attacks.add(t, toll{cases: 1, names: 1})
	begun := time.Now()
	for n := 0; (n < times(12, 40) || moved == 0 || len(refused) == 0) && time.Since(begun) < raceTime; n++ {
		to := moveMounts[random.IntN(len(moveMounts))]
		if to == at {
			continue
		}
		attacks.tried(t, false)
		err := mover.Move(ctx, at+"/box", mover, to+"/box", vfs.If{}, vfs.If{})
		switch {
		case err == nil:
			moved++
			at = to
			rest.Store(shortRest)
			continue
		case !hasCode(err, "conflict notEmpty notFound stale busy exists notDir"):
			t.Errorf("move from %s to %s: %v", at, to, err)
		}
		refused[vfs.CodeOf(err)]++
		rest.Store(min(rest.Load()*5/4, longRest))                          // what is written makes the next move longer, and some must succeed
		if _, err := vfs.StatAt(ctx, mover, to+"/box", false); err == nil { // what was late stays beside it
			err := mover.Move(ctx, at+"/box", mover, fmt.Sprintf("%s/left-%d", at, n), vfs.If{}, vfs.If{})
			if err != nil && vfs.CodeOf(err) != vfs.NotFound {
				t.Errorf("move of what is left at %s: %v", at, err)
			}
			at = to
		}
		if random.IntN(3) == 0 {
			time.Sleep(10 * time.Millisecond)
		}
	}
	over.Store(true)
	writers.Wait()
	t.Logf("%d moves, refused %v; %d files, %d counters, %d logs", moved, refused, len(told.files), len(told.counts), len(told.logs))
	if moved == 0 || len(refused) == 0 || len(told.files) == 0 {
		t.Error("vacuous")
	}
	told.check(t, mover)
	w.nothingStaged()
	host.end()
}

// nothingStaged checks that nothing of a move is left in a staging directory.
func (w *estate) nothingStaged() {
	w.Helper()
	left := func() (all []string) {
		for _, dir := range []string{"disk", "other", "lower"} {
			some, _ := filepath.Glob(filepath.Join(w.path(dir), ".capd-*", "[dt]*"))
			all = append(all, some...)
		}
		return all
	}
	if !waitFor(patience, func() bool { return len(left()) == 0 }) {
		w.Errorf("left behind: %q", left())
	}
}

func (r *running) console() *console.Console {
	r.Helper()
	c, err := console.Dial(context.Background(), filepath.Join(r.state(), "control.sock"))
	ok(r, err)
	r.Cleanup(func() { c.Close() })
	return c
}

// freight is what is moved in movesEnded and movesKilled, by path.
var freight = func() map[string]string {
	all := map[string]string{}
	for i := range 30 {
		all[fmt.Sprintf("d%d/f%d", i%5, i)] = strings.Repeat("x", i*i*50)
	}
	return all
}()

func loadFreight(t testing.TB, d *client.Dir, at string) {
	t.Helper()
	made := map[string]bool{}
	mkdir := func(path string) {
		if !made[path] {
			sub, err := d.CreateDir(t.Context(), path)
			ok(t, err)
			sub.Close()
		}
		made[path] = true
	}
	mkdir(at)
	for path, data := range freight {
		mkdir(at + "/" + filepath.Dir(path))
		_, err := d.Put(t.Context(), at+"/"+path, strings.NewReader(data), vfs.If{})
		ok(t, err)
	}
}

// wholeSomewhere checks that each file of freight is whole at one of places, and nowhere in
// part.
func wholeSomewhere(t *testing.T, what string, d *client.Dir, places ...string) {
	t.Helper()
	seen := map[string]bool{}
	for _, place := range places {
		sub, err := vfs.WalkDir(t.Context(), d, place)
		if vfs.CodeOf(err) == vfs.NotFound {
			continue
		}
		ok(t, err)
		collect(t, sub, "", func(path, data string) {
			if freight[path] != data {
				t.Errorf("%s: %s/%s is torn: %d bytes", what, place, path, len(data))
			}
			seen[path] = true
		})
		sub.Close()
	}
	if len(seen) < len(freight) {
		attacks.escape(t)
		t.Errorf("%s: %d of %d files are left", what, len(seen), len(freight))
	}
}

// movesEnded ends moves in every way and at any moment, and compares what the grant's
// allowance counts with what is there.
func movesEnded(t *testing.T) {
	w := moveEstate(t)
	host := w.serve()
	c := host.console()
	fs, err := c.VirtualFs(t.Context())
	ok(t, err)
	defer fs.Close()
	random := rand.New(rand.NewPCG(10, 11))
	whole := host.guest()
	outcomes := map[string]int{}
	ends := []string{"nothing", "revoke", "lock", "unreadable", "limit", "unmount", "disconnect", "cancel"}
	for n := range times(8, 32) {
		how := ends[n%len(ends)]
		from, to := moveMounts[random.IntN(len(moveMounts))], moveMounts[random.IntN(len(moveMounts))]
		for from == to {
			to = moveMounts[random.IntN(len(moveMounts))]
		}
		attacks.add(t, toll{cases: 1, names: 1, tries: 1})
		g, loc, ctl, err := c.GrantOn(t.Context(), fmt.Sprint("mover", n), "", operator.Terms{Limits: meter.Limits{meter.StoredBytes: 1 << 30, meter.StoredNodes: 1 << 20}})
		ok(t, err)
		held, _ := grantUses(t, c, g.ID)
		conn, err := client.Dial(t.Context(), loc)
		ok(t, err)
		d := conn.Dir(t.Context())
		loadFreight(t, d, from+"/box")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Move(ctx, from+"/box", d, to+"/moved", vfs.If{}, vfs.If{}) }()
		time.Sleep(time.Duration(random.IntN(12_000)) * time.Microsecond)
		remount := ""
		switch how {
		case "revoke":
			ok(t, ctl.Revoke(t.Context()))
		case "lock":
			ok(t, ctl.SetWritable(t.Context(), false))
		case "unreadable":
			ok(t, ctl.SetReadable(t.Context(), false))
		case "limit":
			_, err := c.SetLimits(t.Context(), g.Guest, meter.Limits{meter.StoredBytes: 1, meter.StoredNodes: 1})
			ok(t, err)
		case "unmount":
			if remount = []string{"disk", "other"}[random.IntN(2)]; from != "memory" && to != "memory" && from != "over" && to != "over" {
				ok(t, fs.Unmount(t.Context(), remount))
			} else {
				remount = ""
			}
		case "disconnect":
			conn.Close()
		case "cancel":
			cancel()
		}
		err = <-done
		cancel()
		outcomes[how+" "+string(vfs.CodeOf(err))]++
		if remount != "" {
			ok(t, fs.Mount(t.Context(), remount, "physical:"+w.path(remount), operator.Attenuation{}))
		}
		conn.Close()
		what := fmt.Sprintf("%d: %s, %s to %s (%v)", n, how, from, to, err)
		w.nothingStaged()
		settle(t, c, g.ID, how, held[meter.Nodes])
		wholeSomewhere(t, what, whole, from+"/box", to+"/moved")
		if how != "revoke" && remount == "" {
			var bytes int64
			nodes := int64(0)
			for _, place := range []string{from + "/box", to + "/moved"} {
				if sub, err := vfs.WalkDir(t.Context(), whole, place); err == nil {
					nodes += 1 + int64(collect(t, sub, "", func(_, data string) { bytes += int64(len(data)) }))
					sub.Close()
				}
			}
			if haveBytes, haveNodes := stored(t, c, g.ID); haveBytes != bytes || haveNodes != nodes {
				t.Errorf("%s: the allowance counts %d bytes and %d nodes, there are %d and %d", what, haveBytes, haveNodes, bytes, nodes)
			}
		}
		ok(t, ctl.Revoke(t.Context()))
		ctl.Close()
		for _, place := range []string{from + "/box", to + "/moved"} {
			wipeAll(t, whole, place)
		}
	}
	t.Log(outcomes)
	if outcomes["nothing "] == 0 || len(outcomes) < 8 {
		t.Error("vacuous")
	}
	host.end()
	w.nothingStaged()
}

// settle waits until the grant has nothing under way.
func settle(t *testing.T, c *console.Console, id, how string, nodes int64) {
	t.Helper()
	if how == "revoke" {
		return
	}
	if !waitFor(patience, func() bool {
		u, is := grantUses(t, c, id)
		return !is || u[meter.Nodes] == nodes && u[meter.Streams] == 0 && u[meter.StagedBytes] == 0 && u[meter.Connections] == 0
	}) {
		u, _ := grantUses(t, c, id)
		t.Errorf("after %s the grant still holds %v", how, u)
	}
}

func stored(t *testing.T, c *console.Console, id string) (bytes, nodes int64) {
	t.Helper()
	u, _ := grantUses(t, c, id)
	return u[meter.StoredBytes], u[meter.StoredNodes]
}

// grantUses returns what a grant uses of each kind.
func grantUses(t *testing.T, c *console.Console, id string) (u [meter.Kinds]int64, is bool) {
	t.Helper()
	all, err := c.Usage(t.Context())
	ok(t, err)
	for _, g := range all.Grants {
		if g.ID == id {
			for k, use := range g.Uses {
				u[k] = use.Used
			}
			return u, true
		}
	}
	return u, false
}

func wipeAll(t *testing.T, d *client.Dir, path string) {
	t.Helper()
	n, err := vfs.WalkLink(t.Context(), d, path)
	if vfs.CodeOf(err) == vfs.NotFound {
		return
	}
	ok(t, err)
	if sub, isDir := n.(vfs.Dir); isDir {
		var names []string
		for e, err := range sub.List(t.Context()) {
			ok(t, err)
			names = append(names, e.Name)
		}
		for _, name := range names {
			wipeAll(t, d, path+"/"+name)
		}
	}
	n.Close()
	ok(t, d.RemovePath(t.Context(), path, vfs.If{}))
}

// movesKilled kills the host with kill -9 during moves, and starts it again.
func movesKilled(t *testing.T) {
	w := moveEstate(t)
	random := rand.New(rand.NewPCG(12, 13))
	outcomes := map[string]int{}
	for n := range times(3, 12) {
		attacks.add(t, toll{cases: 1, names: 1, tries: 1})
		host := w.serve()
		d := host.guest()
		loadFreight(t, d, "disk/box")
		done := make(chan error, 1)
		go func() { done <- d.Move(t.Context(), "disk/box", d, "other/moved", vfs.If{}, vfs.If{}) }()
		time.Sleep(time.Duration(random.IntN(400_000)) * time.Microsecond)
		host.kill()
		<-done
		host = w.serve()
		d = host.guest()
		wholeSomewhere(t, fmt.Sprint("killed ", n), d, "disk/box", "other/moved")
		w.nothingStaged()
		kind := ""
		for _, place := range []string{"disk/box", "other/moved"} {
			if _, err := vfs.StatAt(t.Context(), d, place, true); err == nil {
				kind += place + " "
			}
			wipeAll(t, d, place)
		}
		outcomes[kind]++
		host.end()
	}
	t.Log(outcomes)
}

// movesRefused tries to move what cannot move. Nothing has changed afterwards, and nothing is
// counted.
func movesRefused(t *testing.T) {
	w := moveEstate(t)
	disk := &attackDir{TB: t, dir: w.path("disk")}
	for _, d := range []string{"fifo", "socket", "withheld/deep", "name/deep", "git/deep", "self/deep", "many"} {
		disk.mkdir(d)
		disk.write(d+"/f", strings.Repeat("x", 5000))
	}
	in := func(dir string) *attackDir { return &attackDir{TB: t, dir: w.path("disk/" + dir)} }
	fifo(in("fifo"))
	socket(in("socket"))
	disk.write("withheld/deep/.env", secret)
	disk.write("name/deep/tab\there", "x")
	disk.write("name/deep/z\xff", "x")
	disk.write("git/deep/git~1", "x")
	ok(t, os.Truncate(w.path("disk/many/f"), 8<<20)) // sparse
	ok(t, os.Link(w.path("disk/self/deep/f"), w.path("disk/self/deep/g")))
	disk.link("../..", "self/deep/up")
	before := take(t, w.path("disk"))
	host := w.serve()
	c := host.console()
	g, loc, _, err := c.GrantOn(t.Context(), "mover", "", operator.Terms{Limits: meter.Limits{meter.StoredBytes: 1 << 20, meter.StoredNodes: 1000}})
	ok(t, err)
	d := dial(t, loc, secret).Dir(t.Context())
	attacks.add(t, toll{cases: 1, names: 10})
	for _, to := range moveMounts[1:] {
		for _, m := range []struct{ from, to, want string }{
			{"fifo", to + "/x", "notRegular"}, {"socket", to + "/x", "notRegular"}, {"withheld", to + "/x", "denied"},
			{"name", to + "/x", "invalid"}, {"many", to + "/x", "quota"}, {"self", "other/.ssh", "denied"}, {"self", to + "/x\x00", "invalid"},
			{"self", "other/.env", "denied"}, {"self", to + "/a/../x", "invalid"}, {"none", to + "/x", "notFound"}, {"self", to + "/none/x", "notFound"},
			{"self", to, "exists busy"}, {"self", "disk/self/deep/x", "invalid"},
		} {
			attacks.tried(t, false)
			err := d.Move(t.Context(), "disk/"+m.from, d, m.to, vfs.If{}, vfs.If{})
			if is(t, "move of "+m.from+" to "+m.to, err, m.want); err == nil {
				attacks.escape(t)
			}
			if diff := before.differs(take(t, w.path("disk"))); diff != "" {
				t.Fatalf("after a move of %s to %s: %s", m.from, m.to, diff)
			}
			if bytes, nodes := stored(t, c, g.ID); bytes != 0 || nodes != 0 {
				t.Fatalf("after a move of %s to %s: %d bytes and %d nodes are counted", m.from, m.to, bytes, nodes)
			}
			w.nothingStaged()
		}
		n := collect(t, d.SubDir(to), "", func(path, _ string) { t.Errorf("%s/%s is there", to, path) })
		if n > 0 {
			t.Errorf("%d nodes in %s", n, to)
		}
	}
	host.end()
}
