// Walks JSON that comes in pieces, and knows at each value where it stands: the keys that lead to it name its place.
//
// One walker serves requests and whole answers. Each has places of its own, and a table of members that leads from one
// place to the next. The state is two bytes a level of nesting.
//
// `Reader` derives from this class, hides the functions of Sax that it needs, and has:
//   const Member* find(Place in, std::string_view key) const   the member of that name; null if it means nothing
//   void begin_member(Place in, const Member&)                  its key has come, and its value follows
//   Place begin_object(Place)                                   an object begins: returns the place of its members
//   Place begin_array(Place)                                    an array begins: returns the place of its elements
//   void end_object(Place, std::size_t size)
//   void end_array(Place of_elements, std::size_t size)
// `Place` has the values `root`, for the whole document, and `ignored`, for all that means nothing.
#pragma once

#include <boost/container/small_vector.hpp>

#include <cstddef>
#include <string_view>

#include "metrics/wire/json/sax.hpp"

namespace weir::metrics::wire {

template <class Reader, class Member>
class Walker : public Sax {
 public:
  using Place = decltype(Member::place);

  void object_begin() { open_.push_back({reader().begin_object(value_place()), false}); }
  void object_end(std::size_t size) {
    const Place place = open_.back().place;
    open_.pop_back();
    reader().end_object(place, size);
  }
  void array_begin() { open_.push_back({reader().begin_array(value_place()), true}); }
  void array_end(std::size_t size) {
    const Place place = open_.back().place;
    open_.pop_back();
    reader().end_array(place, size);
  }
  void key(std::string_view name) {
    const Place place = open_.back().place;
    member_ = reader().find(place, name);
    if (member_ != nullptr) reader().begin_member(place, *member_);
  }

 protected:
  /// Returns the place of the value that comes now: its key gives a member's, its array an element's.
  Place value_place() const {
    if (open_.empty()) return Place::root;
    if (open_.back().array) return open_.back().place;
    return member_ == nullptr ? Place::ignored : member_->place;
  }
  /// Returns the member of the key that was read last, where value_place() is its place.
  const Member& member() const { return *member_; }
  /// Returns the place of the open object, or of the elements of the open array.
  Place open_place() const { return open_.back().place; }
  std::size_t depth() const { return open_.size(); }

 private:
  struct Container {
    Place place;  // An object's own place, by which its members are found; for an array the place of its
                  // elements.
    bool array;
  };

  Reader& reader() { return static_cast<Reader&>(*this); }

  boost::container::small_vector<Container, 16> open_;
  const Member* member_ = nullptr;  // The last key named this member.
};

}  // namespace weir::metrics::wire
