package controls

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/fault"
)

const (
	// runBound is how long one job goes on with an operation before it lets others have the worker; a process that stops waits for it.
	runBound = time.Second
	// lookForDrains is how often an operation that waits for drains looks whether one has ended.
	lookForDrains = 500 * time.Millisecond
	// lookedEvery is how often an operation that waits says that somebody looks at it.
	lookedEvery = 3 * time.Second
)

// Progress is how far a job has come with an operation.
type Progress struct {
	// Over says that there is nothing more to do for it.
	Over bool
	// Next is when to go on while it is not over.
	Next time.Duration
}

// RunOperation goes on with an operation, batch by batch: what a batch does to its nodes, their events, their results and how far the operation has come
// are one transaction, so that a process that dies in the middle loses nothing and nothing is done twice, whoever goes on. It is safe to call by several
// at a time: a batch commits only where the operation stands as the batch took it to stand, and the others find that it does not and look anew.
//
// While one batch commits, the next locks its nodes, decides and writes them; then it waits for the one before at the operation's row.
func (c *Controls) RunOperation(ctx context.Context, job OperationJob) (Progress, error) {
	until := time.Now().Add(runBound)
	for b := c.launch(ctx, job, nil); ; {
		var after *batch
		if o := <-b.foreseen; len(o.ahead) > 0 && time.Now().Before(until) {
			after = c.launch(ctx, job, &o)
		}
		<-b.ended
		p, goes, err := c.settle(ctx, job, b)
		switch {
		case err != nil || !goes:
			after.drop()
			return p, err
		case after == nil && time.Now().After(until):
			return Progress{}, nil
		case after == nil:
			after = c.launch(ctx, job, nil)
		}
		b = after
	}
}

// outlook is what a batch leaves to the next if it commits.
type outlook struct {
	op    Operation
	ahead []openPart
	// first is closed when the batch holds the operation's row, or does not come to that: the next one is behind it there.
	first <-chan struct{}
}

// batch is a step on its way.
type batch struct {
	foreseen chan outlook // closed when the step has ended; an outlook comes before that, once it has decided
	ended    chan struct{}
	cancel   context.CancelFunc
	// These are there when it has ended.
	step *step
	err  error
}

// launch begins a step beside the caller: the next one by the database, or the one after another that is on its way.
func (c *Controls) launch(ctx context.Context, job OperationJob, after *outlook) *batch {
	b := &batch{foreseen: make(chan outlook, 1), ended: make(chan struct{})}
	ctx, b.cancel = context.WithCancel(ctx)
	first := make(chan struct{})
	how := stride{job: job, most: partSize, after: after, holds: sync.OnceFunc(func() { close(first) })}
	how.foresee = func(o outlook) {
		o.first = first
		select {
		case b.foreseen <- o:
		default: // the transaction is tried again, and was foreseen before
		}
	}
	go func() {
		defer close(b.ended)
		defer close(b.foreseen)
		defer how.holds()
		b.step, b.err = c.stepOperation(ctx, how)
	}()
	return b
}

// drop ends a batch that follows on one that did not come to be, and waits for it. There may be none.
func (b *batch) drop() {
	if b != nil {
		b.cancel()
		<-b.ended
	}
}

// settle looks at what became of a batch that has ended, and says whether to go on at once.
func (c *Controls) settle(ctx context.Context, job OperationJob, b *batch) (p Progress, goes bool, err error) {
	b.cancel()
	s, err := b.step, b.err
	if errors.Is(err, errOvertaken) {
		return Progress{}, true, nil
	}
	if defect(ctx, err) {
		// One node may be the cause, and the others are not to wait for it for ever.
		if s, err = c.stepOperation(ctx, stride{job: job, most: 1}); defect(ctx, err) {
			c.report(ctx, job.OperationID, err)
			s, err = c.stepOperation(ctx, stride{job: job, most: 1, broken: fault.From(err)})
		}
	}
	if err == nil {
		err = c.followUp(ctx, s)
	}
	switch {
	case errors.Is(err, errOvertaken):
		return Progress{}, true, nil
	case err != nil:
		return Progress{}, false, err
	case s.over:
		return Progress{Over: true}, false, nil
	case s.waits:
		return Progress{Next: lookForDrains}, false, nil
	}
	return Progress{}, true, nil
}

// defect says that an error is one of ours and would come again.
func defect(ctx context.Context, err error) bool {
	return err != nil && fault.CodeOf(err) == fault.Internal && ctx.Err() == nil && !db.Unanswered(err) && !errors.Is(err, errOvertaken)
}

func (c *Controls) report(ctx context.Context, operationID string, err error) {
	if c.Log != nil {
		c.Log.ErrorContext(ctx, "an operation can't change a node, which is refused", "operation", operationID, "error", err)
	}
}

// followUp does at once what a net would do later: acceptance looks at what was reported already.
func (c *Controls) followUp(ctx context.Context, s *step) error {
	if s.op.Manner.Verb != VerbAdopt {
		return nil
	}
	var errs []error
	for _, n := range s.changed {
		errs = append(errs, c.LookAtAcceptance(ctx, n.ID, n.AcceptanceRun))
	}
	return errors.Join(errs...)
}
