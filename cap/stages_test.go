package cap_test

import (
	"context"
	"testing"

	schema "capd/capnp"
	"capd/meter"
	"capd/tests/scene"
	"capd/vat"
	"capd/vfs/vfstest"
)

// More stages at once than the grant has threads do not wait for each other.
func TestStagesAtOnce(t *testing.T) {
	s := serve(t, scene.InMemory(t, vfstest.Tree{"f": {Data: "old"}}), nil)
	loc, _ := s.Grant(t, "agent", "", false)
	if _, err := s.Authority.SetLimits("agent", meter.Limits{meter.Threads: 2}); err != nil {
		t.Fatal(err)
	}
	d := scene.Dial(t, loc).Dir(context.Background())
	var stages []*vat.Answer[schema.Dir_stage_Results]
	for range 16 {
		stages = append(stages, vat.Send(t.Context(), d.Cap(), schema.Dir_stage, func(p schema.Dir_stage_Params, _ *vat.Caps) error { return p.SetPath("f") }))
	}
	for i, a := range stages {
		if _, _, err := a.Await(t.Context()); err != nil {
			t.Errorf("stage %d: %v", i, err)
		}
		a.Release()
	}
}
