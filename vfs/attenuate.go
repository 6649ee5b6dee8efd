package vfs

import "capd/meter"

// The functions here derive a narrower view from a view: a node behind a
// membrane (see [Guarded]). They take over nothing: what they return is closed
// by itself. They answer unsupported for a node behind no membrane.

// ReadOnlyDir returns d without the right to change anything, nor anything
// below it. It is revoked with d.
func ReadOnlyDir(d Dir) (Dir, error) {
	v, err := viewOf[*dirView](d)
	if err != nil {
		return nil, err
	}
	return v.derived(v.base, v.mask|noWrite)
}

// ReadOnlyFile is as ReadOnlyDir.
func ReadOnlyFile(f File) (File, error) {
	v, err := viewOf[*fileView](f)
	if err != nil {
		return nil, err
	}
	return v.derived(v.base, v.mask|noWrite)
}

// RevocableDir returns d with a gate of its own, and the control of it.
func RevocableDir(d Dir) (Dir, *Control, error) {
	v, err := viewOf[*dirView](d)
	if err != nil {
		return nil, nil, err
	}
	return v.revocable(v.base.meter)
}

func (v *dirView) revocable(m *meter.Meter) (Dir, *Control, error) {
	c, err := v.control(DirKind, m)
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

// RevocableFile is as RevocableDir.
func RevocableFile(f File) (File, *Control, error) {
	v, err := viewOf[*fileView](f)
	if err != nil {
		return nil, nil, err
	}
	return v.revocable(v.base.meter)
}

func (v *fileView) revocable(m *meter.Meter) (File, *Control, error) {
	c, err := v.control(FileKind, m)
	if err != nil {
		return nil, nil, err
	}
	c.fixed = c.fixed || IsImmutable(v.file)
	r, err := v.derived(c.Gate, v.mask)
	if err != nil {
		c.Release()
		return nil, nil, err
	}
	return r, c, nil
}

// Revocable is [RevocableDir] or [RevocableFile], by n's kind. What it returns, and all that is
// derived from that, counts in m instead of n's meter: it is for somebody else than n's holder.
func Revocable(n Node, m *meter.Meter) (Node, *Control, error) {
	if f, ok := n.(File); ok {
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

// control returns the control of a new gate below v's, through which all counts in m. It
// counts as open, since the gate stays as long as it is held.
func (v *view) control(kind Kind, m *meter.Meter) (*Control, error) {
	p := payers{m, v.world.meters}
	if err := p.open(v.path); err != nil {
		return nil, err
	}
	g, err := v.base.derive(v.path, m)
	if err != nil {
		p.close(v.path)
		return nil, err
	}
	return &Control{Gate: g, Kind: kind, world: v.world, path: v.path, rules: v.rules, fixed: v.mask&noWrite != 0, counted: true}, nil
}

func viewOf[V interface {
	comparable
	check(mode) error
}](n Node) (V, error) {
	v, ok := n.(V)
	if !ok {
		return v, Errorf(Unsupported, "only a node behind a membrane can be narrowed; guard it first")
	}
	return v, v.check(0)
}

func (v *dirView) derived(base *Gate, m mode) (Dir, error) {
	d := &dirView{dir: v.dir}
	if err := v.deriveAt(&d.view, v.inner.retain(), v.path, v.rules, base, m); err != nil {
		return nil, err
	}
	return d, nil
}

func (v *fileView) derived(base *Gate, m mode) (File, error) {
	f := &fileView{file: v.file}
	f.leaf = true
	if err := v.deriveAt(&f.view, v.inner.retain(), v.path, v.rules, base, m); err != nil {
		return nil, err
	}
	f.parent, f.dir = v.parent.retain(), v.dir
	return f, nil
}
