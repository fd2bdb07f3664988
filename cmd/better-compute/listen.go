package main

import (
	"net"

	"github.com/better-compute/better-compute/fault"
)

// listeners are the ports of the process.
type listeners struct{ api, gateway, health net.Listener }

func (s *settings) open() (*listeners, error) {
	l := &listeners{}
	var err error
	if s.has(roleAPI) {
		if l.api, err = listen(s.listen, "listen"); err != nil {
			return nil, err
		}
	}
	if s.has(roleGateway) {
		if l.gateway, err = listen(s.gatewayListen, "gateway-listen"); err != nil {
			l.close()
			return nil, err
		}
	}
	if address := s.healthAddress(); address != "" {
		if l.health, err = listen(address, "health-listen"); err != nil {
			l.close()
			return nil, err
		}
	}
	return l, nil
}

func (l *listeners) close() {
	for _, one := range []net.Listener{l.api, l.gateway, l.health} {
		if one != nil {
			_ = one.Close()
		}
	}
}

func listen(address, flag string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fault.Because(fault.InvalidInput, err, fault.Details{"argument": flag},
			"cannot listen on %s: it is taken or not of this machine; choose another by --%s", address, flag)
	}
	return l, nil
}

func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
