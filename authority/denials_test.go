package authority_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"capd/backend/memory"
	"capd/record"
	"capd/vfs"
	"capd/vfs/membrane"
)

// denials returns what was recorded of refused calls.
func (r *recorded) denials(t testing.TB) (all []record.Entry) {
	t.Helper()
	for e, err := range record.Entries(context.Background(), r.db, record.Query{Kinds: []record.Kind{record.Denied}}) {
		ok(t, err)
		all = append(all, e.Entry)
	}
	return all
}

// A guest that is refused all the time fills neither the disk nor the record.
func TestDenialsAreBounded(t *testing.T) {
	const calls, seconds = 20_000, 10
	synctest.Test(t, func(t *testing.T) {
		r := newRecorded(t, memory.New(memory.Limits{}).Root())
		_, secret := grant(t, r.Host, "agent", "", true)
		d := r.restored(t, secret)
		deep := strings.Repeat("d/", 2000)
		for range seconds {
			for i := range calls / seconds {
				membrane.Denied(d, membrane.OpCreate, fmt.Sprint(deep, i), "", vfs.ReadOnly)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(2 * time.Minute)
		all, times, bytes := r.denials(t), int64(0), 0
		for _, e := range all {
			times += e.Times
			bytes += len(e.Path)
			if e.Grants[0].Name != "agent" || e.Grants[0].ID != "g1" {
				t.Errorf("%+v", e)
			}
		}
		if len(all) > 4*17 || times != calls || bytes > len(all)*1024 {
			t.Errorf("%d calls left %d entries for %d, with %d bytes of paths", calls, len(all), times, bytes)
		}
		ok(t, r.Close())
	})
}

// What is refused after a revoke, and locators that are not restored, are recorded too.
func TestDenialsAfterTheEnd(t *testing.T) {
	r := newRecorded(t, memory.New(memory.Limits{}).Root())
	_, secret := grant(t, r.Host, "agent", "", false)
	shared, _, err := r.Share(t.Context(), r.restored(t, secret))
	ok(t, err)
	d := r.restored(t, shared)
	_, err = r.Revoke("agent")
	ok(t, err)
	r.WaitForBurials()
	_, err = d.Stat(t.Context())
	membrane.Denied(d, membrane.OpStat, "", "", err)
	membrane.Denied(d, membrane.OpStat, "none", "", vfs.NotFound) // no refusal
	for range 3 {
		_, _, err = r.Restore(t.Context(), shared)
		is(t, "a restore", err, vfs.Revoked)
	}
	_, _, err = r.Restore(t.Context(), make([]byte, len(secret)))
	is(t, "a restore of nothing", err, vfs.Denied)
	_, err = r.Petitioner(t.Context(), make([]byte, 32))
	is(t, "an invitation that nobody made", err, vfs.Denied)
	ok(t, r.Close())
	got := map[string]int64{}
	for _, e := range r.denials(t) {
		who := "nobody"
		if len(e.Grants) > 0 {
			who = fmt.Sprint(e.Grants[0].Name, " of ", len(e.Grants))
		}
		got[fmt.Sprint(who, " ", e.Op, " ", e.Code)] = e.Times
	}
	want := map[string]int64{"agent/1 of 2 stat revoked": 1, "agent/1 of 2 restore revoked": 3, "nobody restore denied": 2}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("recorded %v, want %v", got, want)
	}
}
