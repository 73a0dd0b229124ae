#include "lab/sim/sim_replica.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <exception>
#include <iostream>
#include <memory>
#include <vector>

#include "lab/net/stamped_socket.hpp"
#include "lab/sim/engine_loop.hpp"
#include "lab/sim/session.hpp"
#include "lab/sim/truth.hpp"

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
                 settings.wrong_answers,
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
      std::make_shared<sim::Session>(std::move(socket), replica_)->start();
      accept();
    });
  }

  /// It is out of descriptors, or a connection died in the queue; neither ends the server.
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
    const std::vector<sim::Session*> open(replica_.sessions.begin(), replica_.sessions.end());
    for (sim::Session* session : open) session->close();
  }

  sim::Ledger ledger_;
  sim::Replica replica_;  ///< It outlives io_ and the sessions that its handlers own.
  asio::io_context io_{1};
  sim::EngineLoop engine_;
  tcp::acceptor acceptor_;
  asio::signal_set signals_;
  asio::steady_timer pause_;
};

}  // namespace

int run_sim(const SimSettings& settings) {
  try {
    Server server(settings);
    server.run();
    return 0;
  } catch (const boost::system::system_error& e) {
    std::cerr << "weir-lab sim: cannot listen on " << settings.host << ":" << settings.port << ": "
              << e.code().message() << ". Choose another --listen address, or port 0 for one that is free.\n";
  } catch (const std::exception& e) {
    std::cerr << "weir-lab sim: " << e.what() << "\n";
  }
  return 1;
}

}  // namespace weir::lab::sim
