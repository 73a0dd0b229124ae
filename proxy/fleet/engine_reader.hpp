// Reads the engines' own pages: their metrics every few seconds, and the pages that tell engine, version,
// model and limits at the start, when a replica comes back, and every 5 minutes. It publishes that as
// ReplicaState::engine and tells the pools the limits. On the control thread, off the path of requests.
//
// A reading is a few GETs one after the other, with the replica's key, each on a connection of its own, at most 1 MiB
// and with a time limit. A replica is never read twice at once.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <span>

#include "proxy/fleet/fleet.hpp"
#include "proxy/fleet/replica_facts.hpp"

namespace weir::proxy::fleet {

/// Until the context stops. `seed` spreads the readings over time.
void start_engine_reader(boost::asio::io_context& context, const Fleet& fleet, std::uint64_t seed);

/// Returns the pages, besides its metrics, that identify an engine of this kind; every page where the kind is unknown.
std::span<const Page> identifying_pages(Engine engine);

/// Takes new facts into the figures. Figures without a new fact stay, unless it is another engine now.
void take_facts(const ReplicaFacts& facts, EngineFigures& figures);

/// Returns what the pool is to know of them at this moment. An engine is taken to sleep as long as its load is good.
balancer::EngineLimits limits_of(const EngineFigures& figures, metrics::Moment now);

/// Returns one line: "vLLM 0.10.2, model 'm', KV cache of 1000 tokens, context of 4096".
std::string text_of(const EngineFigures& figures);

}  // namespace weir::proxy::fleet
