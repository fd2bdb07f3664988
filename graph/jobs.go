package graph

import (
	"net/http"
	"strings"
	"time"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
)

// jobsPolicy is for the pages about jobs, which are not ours: their own server and nothing else, framed by nobody. Inline styles are what they set.
const jobsPolicy = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'; style-src 'self' 'unsafe-inline'"

// jobs lets who holds a grant in every tenant to the pages about jobs: by a bearer token, or by the browser's session. A page that is merely opened
// sends no Origin, so reading takes the cookie alone, which SameSite keeps from other sites; whatever changes something must name our own Origin.
func jobs(a *API, hosts Hosts, seen *observer, pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reads := r.Method == http.MethodGet || r.Method == http.MethodHead
		token, bearer := bearerOf(r.Header.Get("Authorization"))
		by := "bearer token"
		if !bearer {
			by = "session"
			if cookie, err := r.Cookie(cookieName); err == nil {
				token = cookie.Value
			}
			if origin := r.Header.Get("Origin"); token != "" && !reads && (origin == "" || !hosts.same(r, origin)) {
				refuse(w, r, http.StatusForbidden, fault.New(fault.Forbidden, nil, "a signed-in browser must send its Origin; programs use a bearer token"))
				return
			}
			if from := r.Header.Get("Sec-Fetch-Site"); token != "" && from != "" && from != "same-origin" && from != "none" {
				refuse(w, r, http.StatusForbidden, fault.New(fault.Forbidden, nil, "requests from pages of other sites are refused"))
				return
			}
		}
		var err error
		who := iam.Actor{}
		if token == "" {
			err = iam.Unauthenticated()
		} else {
			who, err = a.Issuer.Verify(token)
			seen.signIn(r.Context(), by, addressOf(r), err)
		}
		if err == nil {
			err = a.Authority.Everywhere(r.Context(), a.DB.Pool(), who, iam.JobsManage)
		}
		if err != nil {
			refuseJobs(w, r, fault.From(err))
			return
		}
		w.Header().Set("Content-Security-Policy", jobsPolicy)
		w.Header().Set("Cross-Origin-Opener-Policy", "same-origin")
		if strings.HasPrefix(r.URL.Path, "/jobs/api/") {
			w.Header().Set("Cache-Control", "no-store")
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerBound))
		pages.ServeHTTP(w, r)
	})
}

// refuseJobs sends a browser that opens the page without being signed in to where it can sign in, and tells everybody else.
func refuseJobs(w http.ResponseWriter, r *http.Request, f *fault.Error) {
	status := http.StatusServiceUnavailable
	switch f.Code {
	case fault.Unauthenticated:
		if r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html") {
			http.Redirect(w, r, "/", http.StatusSeeOther)
			return
		}
		status = http.StatusUnauthorized
	case fault.Forbidden:
		status = http.StatusForbidden
	default: // the database does not answer
	}
	refuse(w, r, status, f)
}
