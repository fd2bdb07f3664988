// Command protogen makes the Go code of the wire protocol from its .proto files. It compiles them itself and hands the result to
// protoc-gen-go, which it runs as a pinned Go tool, so that nothing but Go has to be installed.
//
//	go -C tools run ./protogen ../gateway/wire session.proto
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: protogen DIRECTORY FILE.proto...")
		os.Exit(2)
	}
	if err := generate(ctx, os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

// generate writes the Go files for the given files of dir beside them.
func generate(ctx context.Context, dir string, files []string) error {
	compiler := protocompile.Compiler{
		Resolver: &protocompile.SourceResolver{ImportPaths: []string{dir}},
		// The comments become the doc comments of the Go types.
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	compiled, err := compiler.Compile(ctx, files...)
	if err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: files, Parameter: proto.String("paths=source_relative")}
	for _, file := range compiled {
		request.ProtoFile = append(request.ProtoFile, protoutil.ProtoFromFileDescriptor(file))
	}
	in, err := proto.Marshal(request)
	if err != nil {
		return fmt.Errorf("write the request: %w", err)
	}
	plugin := exec.CommandContext(ctx, "go", "tool", "protoc-gen-go")
	plugin.Stdin, plugin.Stderr = bytes.NewReader(in), os.Stderr
	out, err := plugin.Output()
	if err != nil {
		return fmt.Errorf("run protoc-gen-go: %w", err)
	}
	var answer pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out, &answer); err != nil {
		return fmt.Errorf("read the answer of protoc-gen-go: %w", err)
	}
	if answer.Error != nil {
		return errors.New(answer.GetError())
	}
	for _, file := range answer.GetFile() {
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(file.GetName())), []byte(file.GetContent()), 0o644); err != nil {
			return fmt.Errorf("write %s: %w", file.GetName(), err)
		}
	}
	return nil
}
