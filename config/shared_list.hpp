// A list whose copies share their elements. Settings are copied whole with each change of the fleet, and a file of keys
// may have tens of thousands of them.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace weir::config {

template <class T>
class SharedList {
 public:
  SharedList() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): a list is given as a vector or in braces.
  SharedList(std::vector<T> all) : all_(std::make_shared<const std::vector<T>>(std::move(all))) {}
  SharedList(std::initializer_list<T> all) : SharedList(std::vector<T>(all)) {}

  const std::vector<T>& all() const {
    static const std::vector<T> none;
    return all_ ? *all_ : none;
  }
  auto begin() const { return all().begin(); }
  auto end() const { return all().end(); }
  std::size_t size() const { return all().size(); }
  bool empty() const { return all().empty(); }
  const T& operator[](std::size_t at) const { return all()[at]; }
  /// Tells when the last copy has gone.
  std::weak_ptr<const std::vector<T>> watch() const { return all_; }

  bool operator==(const SharedList& other) const { return all_ == other.all_ || all() == other.all(); }

 private:
  std::shared_ptr<const std::vector<T>> all_;
};

}  // namespace weir::config
