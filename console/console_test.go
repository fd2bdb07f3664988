package console

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
)

func dist() fstest.MapFS {
	return fstest.MapFS{
		".keep":                 {},
		"index.html":            {Data: []byte("<!doctype html>the page")},
		"index.html.gz":         {Data: []byte("the page, gzip")},
		"index.html.br":         {Data: []byte("the page, brotli")},
		"playground.html":       {Data: []byte("<!doctype html>the playground")},
		"icon.svg":              {Data: []byte("<svg/>")},
		"assets/index-abc.js":   {Data: []byte("the script")},
		"assets/index-abc.css":  {Data: []byte("the style")},
		"assets/font-abc.bcbin": {Data: []byte("no known type")},
	}
}

func ask(t *testing.T, h http.Handler, method, path string, headers ...string) (*http.Response, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	response := w.Result()
	t.Cleanup(func() { _ = response.Body.Close() })
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

const page = "text/html,application/xhtml+xml,*/*;q=0.8"

func TestHandler(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, method, path, accept string
		status                     int
		body, contentType, cache   string
	}{
		{"the root is the page", "GET", "/", page, 200, "the page", "text/html; charset=utf-8", "no-cache"},
		{"an address of the page is the page", "GET", "/nodes/node_01k5w?tenant=a", page, 200, "the page", "text/html; charset=utf-8", "no-cache"},
		{"the page by its file's name is the page", "GET", "/index.html", page, 200, "the page", "text/html; charset=utf-8", "no-cache"},
		{"the playground is a page of its own", "GET", "/playground", page, 200, "the playground", "text/html; charset=utf-8", "no-cache"},
		{"the playground with a slash is the same", "GET", "/playground/", page, 200, "the playground", "text/html; charset=utf-8", "no-cache"},
		{"a program that asks for no page gets 404", "GET", "/nodes/node_01k5w", "application/json", 404, "not found", "text/plain; charset=utf-8", ""},
		{"anything goes, as curl asks, gets 404 too", "GET", "/nodes", "*/*", 404, "not found", "text/plain; charset=utf-8", ""},
		{"a script is kept for ever, for its name holds its hash", "GET", "/assets/index-abc.js", "*/*", 200, "the script", "text/javascript; charset=utf-8", "public, max-age=31536000, immutable"},
		{"a style", "GET", "/assets/index-abc.css", "text/css", 200, "the style", "text/css; charset=utf-8", "public, max-age=31536000, immutable"},
		{"a file of no known type is bytes", "GET", "/assets/font-abc.bcbin", "*/*", 200, "no known type", "application/octet-stream", "public, max-age=31536000, immutable"},
		{"the icon", "GET", "/icon.svg", "image/*", 200, "<svg/>", "image/svg+xml", "no-cache"},
		{"a script of an older build is missing, even to who takes pages", "GET", "/assets/index-old.js", page, 404, "not found", "text/plain; charset=utf-8", ""},
		{"a path that climbs stays inside", "GET", "/../../etc/passwd", "*/*", 404, "not found", "text/plain; charset=utf-8", ""},
		{"the file that keeps the folder is not served", "GET", "/.keep", "*/*", 404, "not found", "text/plain; charset=utf-8", ""},
		{"a compressed twin is no file of its own", "GET", "/index.html.gz", "*/*", 404, "not found", "text/plain; charset=utf-8", ""},
		{"HEAD has no body", "HEAD", "/", page, 200, "", "text/html; charset=utf-8", "no-cache"},
		{"POST is refused", "POST", "/", page, 405, "the console answers", "text/plain; charset=utf-8", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			response, body := ask(t, handler(dist()), c.method, c.path, "Accept", c.accept)
			if response.StatusCode != c.status || !strings.Contains(body, c.body) || (c.body == "" && body != "") {
				t.Errorf("%s %s: %d %q", c.method, c.path, response.StatusCode, body)
			}
			if got := response.Header.Get("Content-Type"); got != c.contentType {
				t.Errorf("Content-Type %q, want %q", got, c.contentType)
			}
			if got := response.Header.Get("Cache-Control"); got != c.cache {
				t.Errorf("Cache-Control %q, want %q", got, c.cache)
			}
			for name, want := range map[string]string{
				"X-Content-Type-Options":  "nosniff",
				"Referrer-Policy":         "no-referrer",
				"Content-Security-Policy": "frame-ancestors 'none'",
			} {
				if got := response.Header.Get(name); !strings.Contains(got, want) {
					t.Errorf("%s %q, want %q", name, got, want)
				}
			}
			if strings.Contains(response.Header.Get("Content-Security-Policy"), "script-src") {
				t.Error("scripts must stay under default-src 'self'")
			}
		})
	}
}

// Only the playground may start workers from blobs and take fonts from its styles; both pages stay without inline scripts.
func TestPolicies(t *testing.T) {
	t.Parallel()
	for path, wide := range map[string]bool{"/": false, "/nodes": false, "/assets/index-abc.js": false, "/playground": true} {
		response, _ := ask(t, handler(dist()), "GET", path, "Accept", page)
		got := response.Header.Get("Content-Security-Policy")
		if strings.Contains(got, "worker-src 'self' blob:") != wide || strings.Contains(got, "font-src 'self' data:") != wide {
			t.Errorf("%s: %s", path, got)
		}
		if !strings.HasPrefix(got, "default-src 'self';") || strings.Contains(got, "unsafe-eval") {
			t.Errorf("%s: %s", path, got)
		}
	}
}

// The smallest form that the caller takes is sent, each with a tag of its own, and a page that the browser holds is not sent again.
func TestCompressedAndRevalidated(t *testing.T) {
	t.Parallel()
	h := handler(dist())
	tags := map[string]bool{}
	for _, c := range []struct{ accepted, encoding, body string }{
		{"gzip, deflate, br", "br", "the page, brotli"},
		{"gzip", "gzip", "the page, gzip"},
		{"br;q=0, gzip;q=0.5", "gzip", "the page, gzip"},
		{"br; q=0", "", "<!doctype html>the page"},
		{"", "", "<!doctype html>the page"},
	} {
		response, body := ask(t, h, "GET", "/", "Accept", page, "Accept-Encoding", c.accepted)
		if got := response.Header.Get("Content-Encoding"); got != c.encoding || body != c.body {
			t.Errorf("Accept-Encoding %q: %q, %q", c.accepted, got, body)
		}
		tag := response.Header.Get("ETag")
		tags[tag] = true
		again, _ := ask(t, h, "GET", "/", "Accept", page, "Accept-Encoding", c.accepted, "If-None-Match", tag)
		if again.StatusCode != http.StatusNotModified {
			t.Errorf("Accept-Encoding %q, If-None-Match %s: %d", c.accepted, tag, again.StatusCode)
		}
	}
	if len(tags) != 3 {
		t.Errorf("three forms must have three tags: %v", tags)
	}
}

// A module that was built without npm still serves, and says what is missing.
func TestNotBuilt(t *testing.T) {
	t.Parallel()
	h := handler(fstest.MapFS{".keep": {}})
	response, body := ask(t, h, "GET", "/", "Accept", page)
	if response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "just console") {
		t.Errorf("%d %s", response.StatusCode, body)
	}
	if response, _ := ask(t, h, "GET", "/nodes", "Accept", "application/json"); response.StatusCode != http.StatusNotFound {
		t.Errorf("a program got %d", response.StatusCode)
	}
}

// What is embedded in this very binary answers a browser, built or not.
func TestEmbedded(t *testing.T) {
	t.Parallel()
	response, body := ask(t, Handler(), "GET", "/nodes", "Accept", page)
	if !strings.Contains(body, "better-compute") || response.Header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("%d %s", response.StatusCode, body)
	}
}
