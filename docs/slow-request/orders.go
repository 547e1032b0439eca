// A service whose requests of one department wait for a lock now and then: see ../slow-request.md.
package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// A department has a lock of its own around its prices.
type department struct {
	mu     sync.Mutex
	prices map[string]int
}

type shop struct {
	departments map[string]*department
	mended      bool
}

//go:noinline
func (s *shop) price(name string, article string) int {
	of := s.departments[name]
	of.mu.Lock()
	defer of.mu.Unlock()
	return of.prices[article]
}

//go:noinline
func (s *shop) answer(w http.ResponseWriter, price int) { fmt.Fprintln(w, price) }

func (s *shop) serve(w http.ResponseWriter, r *http.Request) {
	path := strings.SplitN(strings.TrimPrefix(r.URL.Path, "/"), "/", 2)
	if len(path) < 2 || s.departments[path[0]] == nil {
		http.NotFound(w, r)
		return
	}
	s.answer(w, s.price(path[0], path[1]))
}

// The prices of books come from a database that takes 40 ms.
func (s *shop) reload() {
	for ; ; time.Sleep(500 * time.Millisecond) {
		books := s.departments["books"]
		if s.mended {
			prices := fromDatabase()
			books.mu.Lock()
			books.prices = prices
			books.mu.Unlock()
		} else {
			books.mu.Lock()
			books.prices = fromDatabase()
			books.mu.Unlock()
		}
	}
}

func fromDatabase() map[string]int {
	time.Sleep(40 * time.Millisecond)
	return map[string]int{"go": 42}
}

func main() {
	s := &shop{departments: map[string]*department{
		"books": {prices: fromDatabase()},
		"toys":  {prices: map[string]int{"car": 7}},
	}}
	s.mended = len(os.Args) > 2 && os.Args[2] == "mended"
	go s.reload()
	http.HandleFunc("/", s.serve)
	panic(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
