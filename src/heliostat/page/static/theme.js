// Before the first paint: dark or light, as was chosen. "auto" follows the system.
{
  const asked = new URLSearchParams(location.search).get("theme");
  let theme = asked;
  try {
    theme = asked ?? localStorage.getItem("heliostat.theme");
  } catch {
    // storage is forbidden: as the system is
  }
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
}
