package batch_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"testing"

	"capd/tests/powercut"
	"capd/vfs"
	"capd/vfs/batch"
)

// After a power cut at any moment a batch is wholly done or wholly undone. One that has
// answered is done, and one that is kept can be undone.
func TestPowerCut(t *testing.T) {
	dir := newStores(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDoes+"=durable", childDir+"="+dir, childDies+"=0")
	powercut.Run(t, dir, cmd).Each(t, func(dir string, said []string) error {
		target, journal, done, err := stores(dir)
		if err != nil {
			return err
		}
		defer done()
		if len(said) == 5 && len(read(t, journal)) > 0 {
			return fmt.Errorf("of a batch that is over the journal has %v", read(t, journal))
		}
		_, err = batch.Recover(t.Context(), journal, func(context.Context, string) (vfs.Dir, error) {
			return target, nil
		})
		if err != nil {
			return err
		}
		target, _, doneAgain, err := stores(dir)
		if err != nil {
			return err
		}
		defer doneAgain()
		after := before.with(faultEdit)
		got := read(t, target)
		switch last := append([]string{""}, said...)[len(said)]; {
		case maps.Equal(got, before) && slices.Contains([]string{"", "undoing", "undone", "again"}, last):
		case maps.Equal(got, after) && last != "undone":
		default:
			return fmt.Errorf("it holds %v", got)
		}
		ids := kept(t, journal)
		for _, id := range ids {
			if err := batch.Undo(t.Context(), journal, id, target); err != nil {
				return fmt.Errorf("undoing what was kept: %w", err)
			}
			if got := read(t, target); !maps.Equal(got, before) {
				return fmt.Errorf("what was kept is undone, and it holds %v", got)
			}
		}
		if len(said) == 1 && len(ids) != 1 {
			return fmt.Errorf("%d batches are kept, want 1", len(ids))
		}
		return nil
	})
}

// A batch that a process left half done is undone after a power cut at any moment of its
// recovery, and permanently after the recovery has answered.
func TestPowerCutInRecover(t *testing.T) {
	dir := newStores(t)
	if !start(t, "run", dir, 12) {
		t.Fatal("it was done before the 12th step")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDoes+"=recover", childDir+"="+dir, childDies+"=1000000")
	powercut.Run(t, dir, cmd).Each(t, func(dir string, said []string) error {
		target, journal, done, err := stores(dir)
		if err != nil {
			return err
		}
		defer done()
		all, err := batch.Recover(t.Context(), journal, func(context.Context, string) (vfs.Dir, error) { return target, nil })
		if err != nil {
			return err
		}
		target, _, doneAgain, err := stores(dir)
		if err != nil {
			return err
		}
		defer doneAgain()
		if got := read(t, target); !maps.Equal(got, before) || len(said) > 0 && len(all) > 0 {
			return fmt.Errorf("%d batches are recovered, and it holds %v", len(all), got)
		}
		return nil
	})
}
