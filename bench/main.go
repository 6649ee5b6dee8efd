// Command bench measures capd against a floor and against its peers: one program, one table.
//
//	go run .                  everything: about eight minutes
//	go run . -quick           a smoke run
//	go run . -only 'calls/s'  the rows that match
//	go run . -only worlds     what is done with whole trees
//	go run . -only records    what durable state costs
//	go run . -doc FILE        and put the table into FILE, between its markers
//
// Every contender is a server and a client in processes of their own. For each row they take turns, a short
// slice each, for several rounds. A ratio compares a slice with the floor's slice of the same round; the
// median over the rounds is shown. So a time in which the machine is slower affects all of them. Package
// worlds measures whole trees in the same way, beside other programs for the same work.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

func main() {
	if os.Getenv(childEnv) != "" {
		childMain()
		return
	}
	o := options{}
	flag.IntVar(&o.rounds, "rounds", 7, "how often everybody has a turn; 5 times at most where a turn takes seconds")
	flag.DurationVar(&o.slice, "slice", 100*time.Millisecond, "how long a turn is")
	flag.Float64Var(&o.scale, "scale", 1, "how large whole trees are; 1 is what their targets are for")
	quick := flag.Bool("quick", false, "few short rounds and small trees: a smoke run")
	only := flag.String("only", "", "rows whose name matches, `REGEXP`; \"unix\", \"tls\", \"worlds\" for whole trees and \"records\" for durable state are part of the name")
	who := flag.String("contenders", "", "contenders that match, `REGEXP`, beside the floor")
	flag.StringVar(&o.profiles, "profile", "", "keep CPU profiles of the Go processes in `DIR`")
	asJSON := flag.Bool("json", false, "print all that was measured as JSON")
	asMarkdown := flag.Bool("markdown", false, "print the tables as Markdown")
	doc := flag.String("doc", "", "put the tables into `FILE`, between its markers")
	flag.Parse()
	if *quick {
		o.rounds, o.slice, o.scale = 3, 40*time.Millisecond, 0.05
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := func() (err error) {
		if o.profiles != "" {
			if o.profiles, err = filepath.Abs(o.profiles); err != nil {
				return err
			}
			if err = os.MkdirAll(o.profiles, 0o755); err != nil {
				return err
			}
		}
		if o.scale <= 0 || o.scale > 10 {
			return errors.New("-scale is above 0 and at most 10")
		}
		if o.only, err = regexp.Compile(*only); err != nil {
			return err
		}
		if o.who, err = regexp.Compile(*who); err != nil {
			return err
		}
		rep, err := run(ctx, o)
		if err != nil {
			return err
		}
		switch {
		case *asJSON:
			err = rep.json(os.Stdout)
		case *asMarkdown:
			err = rep.markdown(os.Stdout)
		default:
			err = rep.text(os.Stdout)
		}
		if err == nil && *doc != "" {
			err = rep.into(*doc)
		}
		return err
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
