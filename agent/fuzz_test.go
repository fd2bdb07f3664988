package agent

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/gateway/wire"
)

// FuzzIdentity: whatever an identity's record says, it is an identity that signs and is written down as the same again, or an error.
func FuzzIdentity(f *testing.F) {
	i, err := newIdentity()
	require.NoError(f, err)
	good, err := json.Marshal(i.record(time.Now()))
	require.NoError(f, err)
	f.Add(string(good))
	f.Add(`{"seed":"AAAA","madeAt":"2026-11-29T00:00:00Z"}`)
	f.Add(`{"seed":null}`)
	f.Fuzz(func(t *testing.T, text string) {
		var record identityJSON
		if json.Unmarshal([]byte(text), &record) != nil {
			return
		}
		i, err := record.identity()
		if err != nil {
			return
		}
		require.Len(t, i.prove([]byte("exporter"), []byte("csr"), "jt_1"), 64)
		require.Equal(t, record.Seed, i.record(record.MadeAt).Seed)
	})
}

// FuzzCredential: whatever a credential's record says, it is an error or a credential whose parts can be read.
func FuzzCredential(f *testing.F) {
	f.Add(`{"nodeId":"node_1","certificate":"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n","root":"x","privateKey":"AAAA"}`)
	f.Add(`{"certificate":"","root":"","privateKey":null}`)
	f.Add(`{"privateKey":"MEECAQAwEwYHKoZIzj0CAQYIKoZIzj0DAQcEJzAlAgEBBCA="}`)
	f.Fuzz(func(t *testing.T, text string) {
		var record credentialJSON
		if json.Unmarshal([]byte(text), &record) != nil {
			return
		}
		c, err := record.credential()
		if err != nil {
			return
		}
		require.NotEmpty(t, c.Serial())
		require.Len(t, c.RootFingerprint(), 64)
		require.NotEmpty(t, c.tls().Certificate)
	})
}

// FuzzPEM: whatever text a gateway sends as certificates, reading it ends, with one or more certificates or with an error.
func FuzzPEM(f *testing.F) {
	f.Add("")
	f.Add("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n")
	f.Add("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
	f.Add(" \n")
	f.Fuzz(func(t *testing.T, text string) {
		certs, err := decodePEM(text)
		require.Equal(t, err == nil, len(certs) > 0)
	})
}

// FuzzRefusal: whatever answers in a gateway's place, it becomes an error with a code and a sentence, and the pause it asks for is none or a positive one.
func FuzzRefusal(f *testing.F) {
	f.Add(401, `{"code":"UNAUTHENTICATED","message":"the token was used","details":{"a":1},"retryAfterMs":5}`)
	f.Add(503, `<html>`)
	f.Add(200, `{"code":"X","message":"m","retryAfterMs":-9223372036854775808}`)
	f.Add(429, `{"code":"RESOURCE_EXHAUSTED","message":"%d%s","retryAfterMs":9223372036854775807}`)
	f.Fuzz(func(t *testing.T, status int, body string) {
		err := refusal("gateway.example:8443", status, []byte(body))
		require.Error(t, err)
		require.NotEmpty(t, fault.CodeOf(err))
		require.NotEmpty(t, err.Error())
		pause, asked := retryAfter(fault.From(err))
		require.Equal(t, asked, pause > 0, "%s", pause)
	})
}

// FuzzAsked: whatever pause the other side asks for, it is between none and the longest.
func FuzzAsked(f *testing.F) {
	for _, ms := range []int64{0, 1, -1, 9223372036854775807, -9223372036854775808, 9223372036855} {
		f.Add(ms)
	}
	f.Fuzz(func(t *testing.T, ms int64) {
		pause := asked(ms)
		require.GreaterOrEqual(t, pause, time.Duration(0))
		require.LessOrEqual(t, pause, longestPause)
	})
}

// FuzzMachineFiles: whatever the firmware and the system's files say, what goes into a frame is printable text that the wire takes.
func FuzzMachineFiles(f *testing.F) {
	f.Add("To Be Filled By O.E.M.\n", "ID=debian\nVERSION_ID=\"12\"\nPRETTY_NAME='Debian'\n")
	f.Add("\xff\x00\x7f", "ID=\xff\n=\n\"\n")
	f.Fuzz(func(t *testing.T, firmware, release string) {
		h := &Host{root: t.TempDir()}
		for path, content := range map[string]string{
			"sys/class/dmi/id/product_uuid": firmware, "sys/class/dmi/id/product_serial": firmware, "etc/machine-id": firmware, "etc/os-release": release,
		} {
			path = filepath.Join(h.root, path)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		}
		s := &wire.Inventory{
			System:      &wire.System{ProductUuid: h.Print(t.Context()).GetProductUuid(), Serial: h.smbios("product_serial"), MachineId: h.text("etc/machine-id")},
			Os:          h.os(),
			FileSystems: []*wire.FileSystem{{Path: "/" + firmware}}, // as the kernel gives it, whatever bytes that are
			Notes:       slices.Repeat([]string{release}, 2*maxList),
		}
		require.True(t, sound(s.ProtoReflect()))
		require.Len(t, s.GetNotes(), maxList)
		_, err := proto.Marshal(s)
		require.NoError(t, err)
		for _, text := range []string{s.GetSystem().GetProductUuid(), s.GetSystem().GetSerial(), s.GetSystem().GetMachineId(), s.GetOs().GetName()} {
			require.Equal(t, clean(text), text)
		}
		require.Equal(t, printable("/"+firmware), s.GetFileSystems()[0].GetPath(), "the whole path, however long")
	})
}
