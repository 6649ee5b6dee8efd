package membrane

import (
	"capd/meter"
	"capd/vfs"
)

// The functions here derive a narrower view from a view, which is a node behind a
// membrane (see [Guarded]). The result is closed by itself; the argument stays open.
// For a node behind no membrane they answer unsupported.

// ReadOnlyDir returns d without the right to change it or anything below it. Revoking d
// revokes the result.
func ReadOnlyDir(d vfs.Dir) (vfs.Dir, error) {
	v, err := viewOf[*dirView](d)
	if err != nil {
		return nil, err
	}
	return v.derived(v.base, v.mask|changes)
}

// ReadOnlyFile is [ReadOnlyDir] for a file.
func ReadOnlyFile(f vfs.File) (vfs.File, error) {
	v, err := viewOf[*fileView](f)
	if err != nil {
		return nil, err
	}
	return v.derived(v.base, v.mask|changes)
}

// RevocableDir returns d behind a new gate of its own, and the control of that gate.
func RevocableDir(d vfs.Dir) (vfs.Dir, *Control, error) {
	n, c, err := Revocable(d, MeterOf(d))
	r, _ := n.(vfs.Dir)
	return r, c, err
}

func (v *dirView) revocable(m *meter.Meter) (vfs.Dir, *Control, error) {
	c, err := v.control(vfs.DirKind, m)
	if err != nil {
		return nil, nil, err
	}
	r, err := v.derived(c.Gate, v.mask)
	if err != nil {
		c.Release()
		return nil, nil, err
	}
	c.dir, c.node = v.dir, v.inner.retain()
	return r, c, nil
}

// RevocableFile is [RevocableDir] for a file.
func RevocableFile(f vfs.File) (vfs.File, *Control, error) {
	n, c, err := Revocable(f, MeterOf(f))
	r, _ := n.(vfs.File)
	return r, c, err
}

func (v *fileView) revocable(m *meter.Meter) (vfs.File, *Control, error) {
	c, err := v.control(vfs.FileKind, m)
	if err != nil {
		return nil, nil, err
	}
	c.fixed = c.fixed || vfs.IsImmutable(v.file)
	r, err := v.derived(c.Gate, v.mask)
	if err != nil {
		c.Release()
		return nil, nil, err
	}
	return r, c, nil
}

// Revocable is [RevocableDir] or [RevocableFile], according to n's kind. The result,
// and everything derived from it, counts in m instead of n's meter. Use it to give n to
// somebody else.
func Revocable(n vfs.Node, m *meter.Meter) (vfs.Node, *Control, error) {
	if f, ok := n.(vfs.File); ok {
		v, err := viewOf[*fileView](f)
		if err != nil {
			return nil, nil, err
		}
		return v.revocable(m)
	}
	v, err := viewOf[*dirView](n)
	if err != nil {
		return nil, nil, err
	}
	return v.revocable(m)
}

// control returns the control of a new gate below v's. Everything done through that
// gate counts in m. The control itself counts as an open node, since the gate exists as
// long as the control is held.
func (v *view) control(kind vfs.Kind, m *meter.Meter) (*Control, error) {
	p := meters{m, v.guards.meters}
	if err := p.open(v.path); err != nil {
		return nil, err
	}
	g, err := v.base.derive(v.path, m)
	if err != nil {
		p.close(v.path)
		return nil, err
	}
	return &Control{Gate: g, Kind: kind, guards: v.guards, path: v.path, rules: v.standing(), fixed: v.mask&changes == changes, counted: true}, nil
}

func viewOf[V interface {
	comparable
	check(mode) error
}](n vfs.Node) (V, error) {
	v, ok := n.(V)
	if !ok {
		return v, vfs.Errorf(vfs.Unsupported, "only a node behind a membrane can be narrowed; guard it first")
	}
	return v, v.check(0)
}

func (v *dirView) derived(base *Gate, m mode) (vfs.Dir, error) {
	d := &dirView{dir: v.dir}
	if err := v.deriveAt(&d.view, v.inner.retain(), v.path, v.standing(), base, m); err != nil {
		return nil, err
	}
	return d, nil
}

func (v *fileView) derived(base *Gate, m mode) (vfs.File, error) {
	f := &fileView{file: v.file}
	f.leaf = true
	if err := v.deriveAt(&f.view, v.inner.retain(), v.path, v.standing(), base, m); err != nil {
		return nil, err
	}
	return f, nil
}
