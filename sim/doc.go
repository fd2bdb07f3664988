// Package sim is a fleet of simulated machines: the real agent of bcd on made-up hardware, each machine with an identity, a key and a TLS session of
// its own, and a script that lets tenants book, operators cordon and drain, GPUs fail and racks lose their power, now and then.
//
// A seed steers it: the same seed and number give the same machines and the same acts in the same order. What the control plane makes of an act is
// its own affair, and one that it refuses is passed over. It is spoken to by its public API and its gateway alone.
//
// Nobody can mistake the machines for real ones: their host names begin with sim-, their maker is "Simulated", they carry the label simulated=true,
// and the pools that they join begin with sim-.
package sim
