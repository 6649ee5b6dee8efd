package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"capnproto.org/go/capnp/v3"
	"capnproto.org/go/capnp/v3/std/capnp/schema"
)

// streamResult is the type id of StreamResult in capnp/stream.capnp: the result of a `-> stream` method.
const streamResult = 0x995f9a3377c0b16e

// A describer walks the compiled schema, and has the generated text about interfaces.
type describer struct {
	pkg   *pkg
	nodes map[uint64]schema.Node
	out   map[string]*strings.Builder // by Go file: method descriptors and pointer indices
	index strings.Builder             // the package's list of interfaces
}

// describe reads the CodeGeneratorRequest for what capnpc-go's output does not say in a usable form.
func describe(request []byte, p *pkg) (*describer, error) {
	dec := capnp.NewDecoder(bytes.NewReader(request))
	msg, err := dec.Decode()
	if err != nil {
		return nil, fmt.Errorf("code generator request: %w", err)
	}
	msg.ResetReadLimit(1 << 40) // our own compiler's output
	req, err := schema.ReadRootCodeGeneratorRequest(msg)
	if err != nil {
		return nil, err
	}
	d := &describer{pkg: p, nodes: map[uint64]schema.Node{}, out: map[string]*strings.Builder{}}
	nodes, err := req.Nodes()
	if err != nil {
		return nil, err
	}
	for i := range nodes.Len() {
		d.nodes[nodes.At(i).Id()] = nodes.At(i)
	}
	files, err := req.RequestedFiles()
	if err != nil {
		return nil, err
	}
	d.index.WriteString("// Interfaces lists every interface of the schemas, by file and name, with its methods in ordinal order.\n" +
		"var Interfaces = []vat.InterfaceInfo{\n")
	for i := range files.Len() {
		if err := d.file(files.At(i)); err != nil {
			return nil, err
		}
	}
	d.index.WriteString("}\n")
	return d, nil
}

// file describes what one schema file declares, at any depth of nesting, in the order of Go names.
func (d *describer) file(f schema.CodeGeneratorRequest_RequestedFile) error {
	name, err := f.Filename()
	if err != nil {
		return err
	}
	b := &strings.Builder{}
	d.out[name+".go"] = b
	byName := map[string]schema.Node{}
	for id, n := range d.nodes {
		display, _ := n.DisplayName()
		if goName := d.pkg.goName[id]; goName != "" && strings.HasPrefix(display, name+":") {
			byName[goName] = n
		}
	}
	for _, goName := range slices.Sorted(maps.Keys(byName)) {
		n := byName[goName]
		switch n.Which() {
		case schema.Node_Which_interface:
			err = d.iface(b, goName, n)
		case schema.Node_Which_structNode:
			err = d.fields(b, goName, n)
		}
		if err != nil {
			return fmt.Errorf("%s: %s: %w", name, goName, err)
		}
	}
	return nil
}

// iface emits one descriptor a method.
func (d *describer) iface(b *strings.Builder, goName string, n schema.Node) error {
	methods, err := n.Interface().Methods()
	if err != nil {
		return err
	}
	var names []string
	for i := range methods.Len() {
		m := methods.At(i)
		name, err := m.Name()
		if err != nil {
			return err
		}
		names = append(names, strconv.Quote(name))
		params, paramSize, err := d.message(m.ParamStructType())
		if err != nil {
			return fmt.Errorf("parameters of %s: %w", name, err)
		}
		results, resultSize, stream := "vat.Empty", "", ""
		if m.ResultStructType() == streamResult {
			stream = ", Stream: true"
		} else if results, resultSize, err = d.message(m.ResultStructType()); err != nil {
			return fmt.Errorf("results of %s: %w", name, err)
		}
		fmt.Fprintf(b, "// %[1]s_%[2]s describes %[3]s.%[2]s to package vat.\nvar %[1]s_%[2]s = vat.Method[%[4]s, %[5]s]{"+
			"Interface: %[1]s_TypeID, ID: %[6]d, Name: %[7]q%[8]s%[9]s%[10]s}\n\n",
			goName, name, strings.ReplaceAll(goName, "_", "."), params, results, i,
			strings.ReplaceAll(goName, "_", ".")+"."+name, size("Params", paramSize), size("Results", resultSize), stream)
	}
	supers, err := n.Interface().Superclasses()
	if err != nil {
		return err
	}
	var extends []string
	for i := range supers.Len() {
		super := d.pkg.goName[supers.At(i).Id()]
		if super == "" {
			return fmt.Errorf("extends an interface of another Go package, which this generator does not support")
		}
		extends = append(extends, super+"_TypeID")
	}
	fmt.Fprintf(&d.index, "{Name: %q, ID: %s_TypeID, Methods: []string{%s}", strings.ReplaceAll(goName, "_", "."), goName, strings.Join(names, ", "))
	if len(extends) > 0 {
		fmt.Fprintf(&d.index, ", Extends: []uint64{%s}", strings.Join(extends, ", "))
	}
	d.index.WriteString("},\n")
	return nil
}

// message returns the Go type and size of a method's parameters or results.
func (d *describer) message(id uint64) (goType, size string, err error) {
	goType = d.pkg.goName[id]
	n, ok := d.nodes[id]
	if goType == "" || !ok || n.Which() != schema.Node_Which_structNode {
		return "", "", fmt.Errorf("struct 0x%x belongs to another Go package, which this generator does not support", id)
	}
	s := n.StructNode()
	if s.DataWordCount() == 0 && s.PointerCount() == 0 {
		return goType, "", nil
	}
	return goType, fmt.Sprintf("capnp.ObjectSize{DataSize: %d, PointerCount: %d}", int(s.DataWordCount())*8, s.PointerCount()), nil
}

// size spells a descriptor's optional size.
func size(field, value string) string {
	if value == "" {
		return ""
	}
	return ", " + field + ": " + value
}

// fields emits the pointer index of each field through which a pipelined call may travel, and of each Data.
func (d *describer) fields(b *strings.Builder, goName string, n schema.Node) error {
	list, err := n.StructNode().Fields()
	if err != nil {
		return err
	}
	for i := range list.Len() {
		f := list.At(i)
		name, err := f.Name()
		if err != nil {
			return err
		}
		if f.Which() == schema.Field_Which_group {
			if err := d.fields(b, goName+"_"+name, d.nodes[f.Group().TypeId()]); err != nil {
				return err
			}
			continue
		}
		t, err := f.Slot().Type()
		if err != nil {
			return err
		}
		what := " in a pipelined path"
		switch t.Which() {
		case schema.Type_Which_interface, schema.Type_Which_structType, schema.Type_Which_anyPointer:
		case schema.Type_Which_data:
			what = ", a Data"
		default:
			continue
		}
		fmt.Fprintf(b, "// %[1]s_%[2]s is the place of the field %[2]s of %[1]s%[3]s.\nconst %[1]s_%[2]s vat.Field = %[4]d\n\n",
			goName, name, what, f.Slot().Offset())
	}
	return nil
}
