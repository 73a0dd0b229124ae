// The places of one operators' listener. Each listener has its own, so that nobody who may read metrics can keep the
// operators out of the admin listener.
//
// Anyone who reaches a listener may open connections and send nothing. So the newcomer gets in: at the limit the
// connection goes that has waited longest for a request, or, if all were asked something, the one that has been longest
// in taking its answer. Only while weir works on an answer to each of them is a newcomer refused.
//
// No I/O is done here and no clock is read: what came first goes first. On the control thread.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>

namespace weir::proxy::control {

class OperatorPlaces {
 public:
  enum class Does : unsigned char {
    wait,    ///< No whole request has come.
    take,    ///< The operator takes an answer.
    answer,  ///< weir makes its answer.
  };

  /// The place of one connection, which its end gives back. A place keeps all of them alive: at weir's end connections
  /// go with the context, after all else.
  class Place {
   public:
    Place(std::shared_ptr<OperatorPlaces> places, std::function<void()> close);
    ~Place();
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    /// Each call begins anew: who does the same again does it since now.
    void begin(Does does);

   private:
    friend class OperatorPlaces;
    const std::shared_ptr<OperatorPlaces> places_;
    std::function<void()> close_;
    bool has_gone_ = false;  ///< Closed for another connection, and counts no more.
    Does does_ = Does::wait;
    std::list<Place*>::iterator at_;
  };

  explicit OperatorPlaces(std::size_t most) : most_(most) {}
  OperatorPlaces(const OperatorPlaces&) = delete;
  OperatorPlaces& operator=(const OperatorPlaces&) = delete;

  /// Returns whether a newcomer finds room. To make it, one that is there may be closed; `one_went` says so.
  struct Room {
    bool is_there = false, one_went = false;
  };
  Room make_room();
  std::size_t taken() const { return taken_; }

 private:
  const std::size_t most_;
  std::size_t taken_ = 0;
  std::array<std::list<Place*>, 3> doing_;  ///< By Does; each in the order in which they began.
};

}  // namespace weir::proxy::control
