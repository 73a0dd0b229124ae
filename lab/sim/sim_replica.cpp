#include "lab/sim/sim_replica.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "lab/net/sockets.hpp"
#include "lab/sim/session.hpp"

namespace weir::lab::sim {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

class Server {
 public:
  explicit Server(const SimSettings& settings)
      : ledger_(settings.log),
        replica_{engine_,
                 ledger_,
                 settings.model,
                 settings.engine == EngineNames::tgi,
                 settings.cache_report,
                 settings.thoughts,
                 engine::Random(settings.seed)},
        engine_(io_, settings.model_settings, settings.seed),
        acceptor_(io_, tcp::endpoint(asio::ip::make_address(settings.host), settings.port)),
        signals_(io_, SIGINT, SIGTERM),
        pause_(io_) {}

  void run() {
    signals_.async_wait([this](error_code, int) { stop(); });
    net::stamp_arrivals(acceptor_.native_handle());
    accept();
    std::cout << "weir-lab sim: listening on http://" << acceptor_.local_endpoint() << std::endl;
    io_.run();
  }

 private:
  void accept() {
    acceptor_.async_accept([this](error_code ec, tcp::socket socket) {
      if (!acceptor_.is_open()) return;
      if (ec) return accept_later();
      std::make_shared<Session>(std::move(socket), replica_)->start();
      accept();
    });
  }

  /// Running out of descriptors does not end the server, nor does a connection that died in the queue.
  void accept_later() {
    pause_.expires_after(std::chrono::milliseconds(50));
    pause_.async_wait([this](error_code ec) {
      if (!ec) accept();
    });
  }

  void stop() {
    error_code ignored;
    acceptor_.close(ignored);
    pause_.cancel();
    engine_.stop();
    const std::vector<Session*> open(replica_.sessions.begin(), replica_.sessions.end());
    for (Session* session : open) session->close();
  }

  Ledger ledger_;
  Replica replica_;  ///< Outlives io_ and the sessions that its handlers own.
  asio::io_context io_{1};
  EngineLoop engine_;
  tcp::acceptor acceptor_;
  asio::signal_set signals_;
  asio::steady_timer pause_;
};

}  // namespace

void run_sim(const SimSettings& settings) {
  try {
    Server(settings).run();
  } catch (const boost::system::system_error& e) {
    throw std::runtime_error("cannot listen on " + settings.host + ":" + std::to_string(settings.port) + ": " +
                             e.code().message() + ". Choose another --listen address, or port 0 for one that is free.");
  }
}

EngineLoop::EngineLoop(boost::asio::io_context& io, const engine::EngineSettings& settings, std::uint64_t seed)
    : model_(settings, seed), timer_(io) {}

bool EngineLoop::submit(const engine::Sequence& sequence, Listener& listener) {
  if (!model_.submit(sequence)) return false;
  listeners_[sequence.id] = &listener;
  if (!stepping_) begin(Clock::now());
  return true;
}

void EngineLoop::abort(engine::SequenceId id) {
  listeners_.erase(id);
  model_.abort(id);
}

void EngineLoop::begin(Clock::time_point from) {
  const auto took = model_.begin_step();
  stepping_ = took.has_value();
  if (!stepping_) return;
  timer_.expires_at(from + *took);
  timer_.async_wait([this](boost::system::error_code ec) {
    if (!ec) on_deadline();
  });
}

void EngineLoop::on_deadline() {
  const Clock::time_point deadline = timer_.expiry();
  for (const engine::TokenEvent& event : model_.end_step()) {
    const auto found = listeners_.find(event.id);
    if (found == listeners_.end()) continue;  // A listener before it aborted it in this step.
    Listener& listener = *found->second;
    if (event.last) listeners_.erase(found);
    listener.on_token(event);
  }
  const Clock::time_point now = Clock::now();
  begin(now - deadline > forgiven_lateness ? now : deadline);
}

}  // namespace weir::lab::sim
