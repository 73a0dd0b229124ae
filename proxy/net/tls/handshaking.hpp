// Lets the handshakes of one loop go on, one step at a time: a step costs a signature or the check of one, some hundred
// microseconds, and the tokens of others have their turn between two. Handshakes with replicas come first: an admitted
// request waits for them, and no client can make many of them. Only the loop's thread uses it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <functional>
#include <utility>

namespace weir::proxy::net::tls {

/// The other end. metrics::series has the names of these and of the results.
enum class Side : std::uint8_t { client, replica };

/// How a handshake ended. One that was given up, by a deadline or because its client was gone, has failed.
enum class Result : std::uint8_t { full, resumed, failed };

class Handshaking {
 public:
  using Ended = std::function<void(Side, Result)>;

  /// `ended` is called at the end of each handshake. The context may end before this object, and runs no more then.
  Handshaking(boost::asio::io_context& context, Ended ended) : context_(context), ended_(std::move(ended)) {}

  /// Something that takes steps. It gives up its turn when it goes.
  class Stepper : public boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
   public:
    /// Takes its step. It may destroy itself and others.
    virtual void step() = 0;

   protected:
    ~Stepper() = default;
  };

  /// Lets it take a step when its turn comes. It has one turn, however often it asks.
  void ask(Stepper& stepper, Side side);
  void ended(Side side, Result result) const {
    if (ended_) ended_(side, result);
  }

 private:
  void post();
  void take_turn();

  using List = boost::intrusive::list<Stepper, boost::intrusive::constant_time_size<false>>;
  boost::asio::io_context& context_;
  const Ended ended_;
  List replicas_, clients_;  ///< Handshakes that wait for their turn.
  bool posted_ = false;
};

}  // namespace weir::proxy::net::tls
